#include <fstream>
#include <iostream>

#include "src/cli/duration.h"
#include "src/cli/text.h"

#include "lab/checker/checker.h"
#include "lab/history/text.h"
#include "lab/program/arguments.h"

namespace holdfast::lab {

int check_command(const Arguments& arguments) {
  const auto parsed = parse(arguments, {{"--wake"}, {"--grace"}});
  if (!parsed) return bad_input("check", parsed.error().message());
  if (parsed->operands.empty()) return bad_input("check", "name the file of a history");
  CheckOptions options;
  for (const auto& [name, into] :
       {std::pair("--wake", &options.wake_ns), std::pair("--grace", &options.grace_ns)}) {
    if (!parsed->has(name)) continue;
    const auto span = cli::parse_duration(*parsed->value(name));
    if (!span) return bad_input("check", std::string(name) + ": " + span.error().message());
    *into = std::chrono::nanoseconds(*span).count();
  }
  bool clean = true;
  for (const std::string& path : parsed->operands) {
    std::ifstream file(path);
    if (!file) return bad_input("check", "cannot read " + cli::in_quotes(path));
    const Result<History> history = read(file);
    if (!history) {
      return bad_input("check", cli::in_quotes(path) + ": " + history.error().message());
    }
    const Verdict verdict = check(*history, options);
    if (parsed->operands.size() > 1) std::cout << path << ": ";
    print(verdict, std::cout);
    clean &= verdict.clean();
  }
  std::cout.flush();
  if (!std::cout) return kOwnFailure;
  return clean ? kAsExpected : kNotAsExpected;
}

}  // namespace holdfast::lab
