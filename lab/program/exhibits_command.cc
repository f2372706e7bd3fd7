#include <iostream>

#include "src/cli/options/values.h"

#include "lab/exhibits/command.h"
#include "lab/program/options.h"
#include "lab/program/run_and_report.h"

namespace holdfast::lab {

int exhibits_command(const Arguments& arguments) {
  ExhibitsOrders orders;
  std::optional<std::string> out;
  cli::OptionTable table = options_of("exhibits");
  table.flag("--list", orders.list);
  table.flag("--steps", orders.steps);
  table.value("--out", out, cli::read_text);
  table.words(orders.names);
  if (const auto status = parse_options(table, "exhibits", arguments)) return *status;
  if (const auto usable = try_folder(out); !usable) {
    return bad_input("exhibits", usable.error().message());
  }
  orders.out = out.value_or("");
#ifdef HOLDFAST_LAB_HAVE_EXHIBITS
  const int status = run_exhibits(orders, std::cout, std::cerr, [] { return signal_seen() != 0; });
  return signal_seen() != 0 ? 128 + signal_seen() : status;
#else
  complain(
      "exhibits: this program was built without the Redis store or the SQLite store, which they "
      "need");
  return kOwnFailure;
#endif
}

}  // namespace holdfast::lab
