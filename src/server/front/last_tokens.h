// The last tokens of locks that are free, for people who look: the lock machine forgets such locks.
//
// Guarantee: at least the kAtLeast locks that were held last are known, and at most twice as many.
// Not guaranteed: anything after a restart.
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "src/machine/types.h"

namespace holdfast::server {

class LastTokens {
 public:
  static constexpr std::size_t kAtLeast = 16'384;

  void note(const std::string& name, machine::Token token) {
    recent_[name] = token;
    if (recent_.size() < kAtLeast) return;
    older_ = std::exchange(recent_, {});
  }

  std::optional<machine::Token> of(const std::string& name) const {
    for (const Table* table : {&recent_, &older_}) {
      if (const auto found = table->find(name); found != table->end()) return found->second;
    }
    return std::nullopt;
  }

 private:
  using Table = std::unordered_map<std::string, machine::Token>;

  Table recent_;
  Table older_;
};

}  // namespace holdfast::server
