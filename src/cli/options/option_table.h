// The options of one command: what they are called, and where their values go.
//
// A thin layer over CLI11 that adds what people need when they mistype: the nearest option, and
// which help page to read. Help texts are written by hand (help.cc).
// Thread-safety: one thread. Ownership: keeps references to the targets.
#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "holdfast/result.h"

namespace holdfast::cli {

// One line of a table, for `holdfast help --options`, which the completions read.
struct OptionRow {
  std::string names;     // "-w --wait", or the name of a word that is no option.
  std::string takes;     // "flag", or what value() calls `offers`.
  std::string excludes;  // The options that contradict it, with spaces between.
};

// The message tells that the word is too much. It leaves a password out that is in a store's URL.
std::string one_too_many(const std::string& word);

class OptionTable {
 public:
  explicit OptionTable(std::string command, std::string program = "holdfast");
  ~OptionTable();

  // `names` as CLI11 writes them: "-v,--verbose". The last one given wins. Every command has
  // "-h,--help"; when it is given, parse() demands nothing else.
  void flag(const std::string& names, bool& target);
  // `read` says what a value may be; see values.h. Without the option, `target` stays as it is.
  // `offers` says what the completions offer: "file", "folder", "store", "token", "duration",
  // words with '|' between, or nothing ("text").
  template <typename Target, typename Read>
  void value(
      const std::string& names, Target& target, Read read,
      std::string_view offers = std::is_same_v<std::invoke_result_t<Read, const std::string&>,
                                               Result<std::chrono::milliseconds>>
                                    ? "duration"
                                    : "text") {
    add(names, offers, [&target, read = std::move(read)](const std::string& text) -> Result<void> {
      auto value = read(text);
      if (!value) return value.error();
      target = *std::move(value);
      return {};
    });
  }
  // `offers` as in value(); "lock" stands for the names of locks.
  void positional(const std::string& name, std::string& target, bool required = true,
                  std::string_view offers = "text");
  // At most one of these options may be given.
  void exclusive(std::initializer_list<const char*> names);
  // All words that are no options, instead of positionals.
  void words(std::vector<std::string>& target);

  // Words after "--" are no options. Errors: kInvalidArgument, with the nearest option and
  // the help page to read. The values that could be read are set all the same.
  Result<void> parse(std::vector<std::string> arguments);

  // The rows of the table that `parse` fills and parses with.
  static std::vector<OptionRow> rows_of(const std::function<void()>& parse);

 private:
  void add(const std::string& names, std::string_view offers,
           std::function<Result<void>(const std::string&)> read);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::cli
