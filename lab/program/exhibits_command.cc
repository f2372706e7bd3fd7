#include <iostream>

#include "lab/exhibits/command.h"
#include "lab/program/commands.h"

namespace holdfast::lab {

int exhibits_command(const Arguments& arguments) {
#ifdef HOLDFAST_LAB_HAVE_EXHIBITS
  const int status =
      run_exhibits(arguments, std::cout, std::cerr, [] { return signal_seen() != 0; });
  return signal_seen() != 0 ? 128 + signal_seen() : status;
#else
  static_cast<void>(arguments);
  complain("exhibits: built without Redis or SQLite");
  return kOwnFailure;
#endif
}

}  // namespace holdfast::lab
