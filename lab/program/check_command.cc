#include <filesystem>
#include <fstream>
#include <iostream>

#include "src/cli/options/values.h"
#include "src/cli/text/text.h"

#include "lab/checker/checker.h"
#include "lab/history/text.h"
#include "lab/program/options.h"

namespace holdfast::lab {

int check_command(const Arguments& arguments) {
  std::optional<cli::Duration> wake;
  std::optional<cli::Duration> grace;
  std::optional<cli::Duration> lingers;
  std::vector<std::string> paths;
  cli::OptionTable table = options_of("check");
  table.value("--wake", wake, cli::read_duration);
  table.value("--grace", grace, cli::read_duration);
  table.value("--lingers", lingers, cli::read_duration);
  table.words(paths);
  if (const auto status = parse_options(table, "check", arguments)) return *status;
  if (paths.empty()) return bad_input("check", "name the file of at least one history");
  bool clean = true;
  for (const std::string& path : paths) {
    std::error_code unknown;
    if (std::filesystem::is_directory(path, unknown)) {
      return bad_input("check", cli::in_quotes(path) + " is a folder, not a history");
    }
    std::ifstream file(path);
    if (!file) return bad_input("check", "cannot read " + cli::in_quotes(path));
    const Result<History> history = read(file);
    if (!history) {
      return bad_input("check", cli::in_quotes(path) + ": " + history.error().message());
    }
    CheckOptions options = options_of(*history);
    if (wake) options.wake_ns = std::chrono::nanoseconds(*wake).count();
    if (grace) options.grace_ns = std::chrono::nanoseconds(*grace).count();
    if (lingers) options.linger_ns = std::chrono::nanoseconds(*lingers).count();
    const Verdict verdict = check(*history, options);
    if (paths.size() > 1) std::cout << path << ": ";
    print(verdict, std::cout);
    clean &= verdict.clean();
  }
  std::cout.flush();
  if (!std::cout) return kOwnFailure;
  return clean ? kAsExpected : kNotAsExpected;
}

}  // namespace holdfast::lab
