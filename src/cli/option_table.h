// The options of one command: what they are called, and where their values go.
//
// A thin layer over CLI11 that adds what people need when they mistype: the nearest option, and
// which help page to read. Help texts are written by hand (help.cc).
// Thread-safety: one thread. Ownership: keeps references to the targets.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/result.h"

namespace holdfast::cli {

class OptionTable {
 public:
  explicit OptionTable(std::string command);
  ~OptionTable();

  // `names` as CLI11 writes them: "-v,--verbose". The last one given wins.
  void flag(const std::string& names, bool& target);
  void text(const std::string& names, std::optional<std::string>& target);
  void duration(const std::string& names, std::optional<std::chrono::milliseconds>& target);
  void number(const std::string& names, std::optional<int>& target, int least, int most);
  void choice(const std::string& names, std::optional<std::string>& target,
              std::vector<std::string> choices);
  void positional(const std::string& name, std::string& target, bool required = true);

  // `--help` or `-h` was among the arguments (true after parse()).
  bool help() const;

  // Errors: kInvalidArgument, with the nearest option and the help page to read. The values that
  // could be read are set all the same.
  Result<void> parse(std::vector<std::string> arguments);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::cli
