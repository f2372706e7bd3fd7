// A time, give or take a quarter, so that many clients do not act at once.
#pragma once

#include <chrono>
#include <random>

namespace holdfast::stores::hybrid {

inline std::chrono::milliseconds jittered(std::chrono::milliseconds time,
                                          std::minstd_rand& random) {
  const auto percent = static_cast<std::chrono::milliseconds::rep>(75 + random() % 51);
  return time * percent / 100;
}

}  // namespace holdfast::stores::hybrid
