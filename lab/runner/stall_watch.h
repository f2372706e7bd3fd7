// Looks whether the host itself stood still, and marks that as a fault at it: what a lock does not
// do meanwhile is not its mistake.
#pragma once

#include <atomic>
#include <cstddef>
#include <stop_token>
#include <thread>

#include "lab/recorder/recorder.h"

namespace holdfast::lab {

class StallWatch {
 public:
  explicit StallWatch(Recorder& recorder);

  std::size_t seen() const { return seen_; }

 private:
  void run(const std::stop_token& stop);

  Recorder& recorder_;
  std::atomic<std::size_t> seen_{0};
  std::jthread thread_;
};

}  // namespace holdfast::lab
