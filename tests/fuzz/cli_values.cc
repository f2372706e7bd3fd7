// Values of options and of the configuration file; and foreign text made safe for a terminal.

#include "src/cli/options/values.h"
#include "src/cli/text/text.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::cli_values {
namespace {

template <typename T>
void check(const Result<T>& value) {
  if (value) return;
  demand(value.error().code() == Errc::kInvalidArgument, "a value is refused as invalid");
  demand(!value.error().message().empty(), "with a reason");
}

bool safe(std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) return false;
  }
  return text.find("\xe2\x80\xae") == text.npos;  // The right-to-left override.
}

}  // namespace

void run(std::string_view input) {
  const std::string text(input);
  check(cli::read_duration(text));
  const auto period = cli::read_period(text);
  check(period);
  demand(!period || period->count() > 0, "a period is longer than nothing");
  const auto code = cli::read_exit_code(text);
  check(code);
  demand(!code || std::to_string(*code) == text.substr(text.find_first_not_of('0')),
         "a number is what stands there");
  const auto permits = cli::read_permits(text);
  check(permits);
  if (permits) {
    demand(permits->count() >= 1 && permits->count() <= permits->capacity(), "n is one to N");
  }
  check(cli::read_on_lost(text));
  check(cli::read_leftover(text));

  const std::string shown = cli::printable(input);
  demand(safe(shown), "what is shown does nothing to a terminal");
  demand(cli::printable(shown) == shown, "what is shown is shown as it is");
  const std::string brief = cli::shortened(text, 20);
  demand(brief.size() <= 23, "what is shortened is short");
  (void)cli::columns(input);
  (void)cli::nearest(input.substr(0, 200), {"--wait", "--ttl", "--shared"});
}

}  // namespace holdfast::fuzz::cli_values

HOLDFAST_FUZZ_TARGET(cli_values)
