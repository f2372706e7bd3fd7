// The options of one command: what they are called, and where their values go.
//
// A thin layer over CLI11 that adds what people need when they mistype: the nearest option, and
// which help page to read. Help texts are written by hand (help.cc).
// Thread-safety: one thread. Ownership: keeps references to the targets.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/result.h"

namespace holdfast::cli {

class OptionTable {
 public:
  explicit OptionTable(std::string command, std::string program = "holdfast");
  ~OptionTable();

  // `names` as CLI11 writes them: "-v,--verbose". The last one given wins. Every command has
  // "-h,--help"; when it is given, parse() demands nothing else.
  void flag(const std::string& names, bool& target);
  // `read` says what a value may be; see values.h. Without the option, `target` stays as it is.
  template <typename Target, typename Read>
  void value(const std::string& names, Target& target, Read read) {
    add(names, [&target, read = std::move(read)](const std::string& text) -> Result<void> {
      auto value = read(text);
      if (!value) return value.error();
      target = *std::move(value);
      return {};
    });
  }
  void positional(const std::string& name, std::string& target, bool required = true);
  // All words that are no options, instead of positionals.
  void words(std::vector<std::string>& target);

  // Words after "--" are no options. Errors: kInvalidArgument, with the nearest option and
  // the help page to read. The values that could be read are set all the same.
  Result<void> parse(std::vector<std::string> arguments);

 private:
  void add(const std::string& names, std::function<Result<void>(const std::string&)> read);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::cli
