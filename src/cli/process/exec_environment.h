// The environment that a command is started with.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "src/cli/process/signals.h"

namespace holdfast::cli {

// The environment as exec wants it: the inherited one, with new assignments in place of old ones.
// An appended assignment would lose against a stale one in front of it.
class ExecEnvironment {
 public:
  explicit ExecEnvironment(const std::string& assignments) {
    for (std::size_t at = 0; at < assignments.size();) {
      texts_.push_back(assignments.substr(at, assignments.find('\0', at) - at));
      at += texts_.back().size() + 1;
    }
    for (char** old = environ; *old != nullptr; ++old) {
      const char* equals = std::strchr(*old, '=');
      if (equals == nullptr || !overrides({*old, static_cast<std::size_t>(equals - *old + 1)})) {
        pointers_.push_back(*old);
      }
    }
    for (std::string& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  char** data() { return pointers_.data(); }

 private:
  bool overrides(const std::string& name_and_equals) const {
    return std::any_of(texts_.begin(), texts_.end(), [&](const std::string& text) {
      return text.compare(0, name_and_equals.size(), name_and_equals) == 0;
    });
  }

  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

// The process becomes the command. Returns only when that fails, with errno.
inline void become(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
}

inline void become(const std::vector<std::string>& command, ExecEnvironment& environment,
                   const Signals& signals) {
  environ = environment.data();
  signals.restore();
  become(command);
}

}  // namespace holdfast::cli
