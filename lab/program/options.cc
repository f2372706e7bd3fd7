#include "lab/program/options.h"

#include <charconv>
#include <limits>

#include "src/cli/text/text.h"

namespace holdfast::lab {

std::optional<int> parse_options(cli::OptionTable& table, const std::string& command,
                                 const Arguments& arguments) {
  bool help = false;
  table.flag("-h,--help", help);
  const Result<void> parsed = table.parse(arguments);
  if (help) return help_command({command});
  if (parsed) return std::nullopt;
  complain(parsed.error().message());
  return kBadInput;
}

Result<std::uint64_t> read_whole(const std::string& text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (problem == std::errc{} && stop == end && number <= kMost) return number;
  return Error(Errc::kInvalidArgument,
               cli::in_quotes(text) + " is not a whole number of at least 0");
}

std::function<Result<std::uint64_t>(const std::string&)> from_one_to(std::uint64_t most) {
  return [most](const std::string& text) -> Result<std::uint64_t> {
    Result<std::uint64_t> number = read_whole(text);
    if (!number || (*number >= 1 && *number <= most)) return number;
    return Error(Errc::kInvalidArgument, "must be from 1 to " + std::to_string(most));
  };
}

}  // namespace holdfast::lab
