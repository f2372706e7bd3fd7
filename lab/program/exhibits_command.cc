#include <iostream>

#include "lab/exhibits/command.h"
#include "lab/program/commands.h"

namespace holdfast::lab {

int exhibits_command(const Arguments& arguments) {
#ifdef HOLDFAST_LAB_HAVE_EXHIBITS
  return run_exhibits(arguments, std::cout, std::cerr);
#else
  static_cast<void>(arguments);
  complain("exhibits: built without Redis or SQLite");
  return kOwnFailure;
#endif
}

}  // namespace holdfast::lab
