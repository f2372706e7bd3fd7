// The last break of each lock by an operator, so that its holder learns why the lease has ended.
// The oldest are dropped beyond a bound.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "src/server/requests.h"

namespace holdfast::server {

class BreakTraces {
 public:
  void leave(const std::string& lock, BreakTrace trace) {
    const auto old = traces_.find(lock);
    if (old != traces_.end()) by_age_.erase(old->second.first);
    const std::uint64_t age = next_age_++;
    traces_.insert_or_assign(lock, std::pair(age, std::move(trace)));
    by_age_.emplace(age, lock);
    if (traces_.size() > kMost) {
      traces_.erase(by_age_.begin()->second);
      by_age_.erase(by_age_.begin());
    }
  }

  const BreakTrace* find(const std::string& lock) const {
    const auto found = traces_.find(lock);
    return found == traces_.end() ? nullptr : &found->second.second;
  }

  // The oldest first.
  template <typename Each>
  void visit(const Each& each) const {
    for (const auto& [age, lock] : by_age_) each(lock, traces_.at(lock).second);
  }

 private:
  static constexpr std::size_t kMost = 1'024;

  std::map<std::string, std::pair<std::uint64_t, BreakTrace>> traces_;
  std::map<std::uint64_t, std::string> by_age_;
  std::uint64_t next_age_ = 1;
};

}  // namespace holdfast::server
