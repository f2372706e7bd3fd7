// Options and operands of a command line.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/result.h"

#include "lab/program/commands.h"

namespace holdfast::lab {

struct OptionSpec {
  std::string name;  // "--seed"
  bool has_value = true;
  std::string alias{};  // "-q"
};

struct Parsed {
  std::map<std::string, std::string> options;  // Of a flag: empty text.
  std::vector<std::string> operands;

  bool has(const std::string& name) const { return options.contains(name); }
  std::optional<std::string> value(const std::string& name) const {
    const auto found = options.find(name);
    return found == options.end() ? std::nullopt : std::optional(found->second);
  }
};

// "--name VALUE" and "--name=VALUE"; behind "--" all are operands. Errors: kInvalidArgument.
Result<Parsed> parse(const Arguments& arguments, const std::vector<OptionSpec>& specs);

// A whole number from 0 on, up to 2^63 - 1.
Result<std::uint64_t> parse_number(const std::string& text);

}  // namespace holdfast::lab
