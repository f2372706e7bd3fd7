#include "lab/program/arguments.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "src/cli/text.h"

namespace holdfast::lab {
namespace {

Error bad(const std::string& what) { return {Errc::kInvalidArgument, what}; }

const OptionSpec* find(const std::vector<OptionSpec>& specs, const std::string& name) {
  const auto found = std::find_if(specs.begin(), specs.end(), [&](const OptionSpec& spec) {
    return spec.name == name || (!spec.alias.empty() && spec.alias == name);
  });
  return found == specs.end() ? nullptr : &*found;
}

std::string unknown(const std::vector<OptionSpec>& specs, const std::string& name) {
  std::vector<std::string> names;
  for (const OptionSpec& spec : specs) names.push_back(spec.name);
  const std::string near = cli::nearest(name, names);
  return "there is no option " + cli::in_quotes(name) +
         (near.empty() ? "" : "; did you mean " + near + "?");
}

}  // namespace

Result<Parsed> parse(const Arguments& arguments, const std::vector<OptionSpec>& specs) {
  Parsed parsed;
  bool options_over = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (options_over || argument.size() < 2 || argument.front() != '-') {
      parsed.operands.push_back(argument);
      continue;
    }
    if (argument == "--") {
      options_over = true;
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const OptionSpec* spec = find(specs, name);
    if (spec == nullptr) return bad(unknown(specs, name));
    if (parsed.has(spec->name)) return bad(spec->name + " is given twice");
    std::string value;
    if (!spec->has_value) {
      if (equals != std::string::npos) return bad(spec->name + " takes no value");
    } else if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      return bad(spec->name + " needs a value");
    }
    parsed.options[spec->name] = value;
  }
  return parsed;
}

Result<std::uint64_t> parse_number(const std::string& text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (problem != std::errc{} || stop != end || number > kMost) {
    return bad(cli::in_quotes(text) + " is no whole number from 0 on");
  }
  return number;
}

}  // namespace holdfast::lab
