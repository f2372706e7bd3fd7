// Durations, of URLs and of the command line.

#include "src/cli/options/duration.h"

#include "src/port/store_url.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::duration {
namespace {

using std::chrono::milliseconds;
constexpr std::int64_t kYear = std::int64_t{366} * 86'400'000;

void check(const Result<milliseconds>& read, std::int64_t longest, std::string_view input) {
  if (!read) {
    demand(read.error().code() == Errc::kInvalidArgument, "a duration is refused as invalid");
    demand(read.error().message().find("is not a duration") != std::string::npos,
           "the error shows how to write one");
    return;
  }
  demand(read->count() >= 0 && read->count() <= longest, "a duration has limits");
  demand(input.find_first_of("123456789") != input.npos || read->count() == 0,
         "of no digits comes no time");
}

}  // namespace

void run(std::string_view input) {
  const auto of_url = port::parse_duration(input);
  check(of_url, kYear, input);
  const auto of_cli = cli::parse_duration(input);
  check(of_cli, 100 * kYear, input);

  // A number with one unit means the same to both; a bare one means seconds to people.
  const bool has_unit = input.find_first_of("mshd") != input.npos;
  if (of_url && of_cli && has_unit) {
    const std::int64_t apart = of_url->count() - of_cli->count();
    demand(apart >= -1 && apart <= 1, "both readers mean the same");
  }
  if (of_cli) {
    const std::string shown = cli::format_duration(*of_cli);
    const auto again = cli::parse_duration(shown);
    demand(again.has_value(), "what is shown of a duration is one: " + shown);
    demand(*again <= *of_cli, "what is shown is not longer");
  }
}

}  // namespace holdfast::fuzz::duration

HOLDFAST_FUZZ_TARGET(duration)
