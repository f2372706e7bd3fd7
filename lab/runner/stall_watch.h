// Notices when the host itself stands still, and records this as a fault of the host, so that the
// lock is not blamed for it.
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
