// How often a user or a connection may ask.
//
// Thread-safety: the loop only.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "src/base/clock.h"

namespace holdfast::server {

class Rate {
 public:
  explicit Rate(std::size_t most) : most_(most) {}

  // Requests of one second may be saved up. After a request for many locks at once the next ones
  // wait. False: too many.
  bool take(base::BootInstant now, std::size_t count = 1) {
    if (most_ == 0) return true;
    const auto most = static_cast<double>(most_);
    const std::chrono::duration<double> passed = now - std::exchange(counted_at_, now);
    saved_ = std::min(most, saved_ + passed.count() * most);
    if (saved_ < 1.0) return false;
    saved_ -= static_cast<double>(count);
    return true;
  }
  std::size_t most() const { return most_; }  // In a second; 0: no limit.

 private:
  std::size_t most_;
  double saved_ = 0;
  base::BootInstant counted_at_{};
};

}  // namespace holdfast::server
