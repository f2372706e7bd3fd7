// This says on stderr what the program waits for, should that take a second. Its end ends that.
// Not guaranteed: a word, where no thread is to be had.
//
// Ownership: the narrator outlives it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "src/cli/options/duration.h"
#include "src/cli/process/boottime.h"
#include "src/cli/run/narrator.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {

class SaidIfLate {
 public:
  static constexpr Duration kLate = std::chrono::seconds(1);

  // "waiting for store S to DO: UNTIL()".
  SaidIfLate(const Narrator& narrator, std::string done, std::function<std::string()> until) {
    try {
      thread_ = std::jthread([&narrator, done = std::move(done),
                              until = std::move(until)](const std::stop_token& over) {
        std::mutex mutex;
        std::unique_lock lock(mutex);
        std::condition_variable_any ended;
        ended.wait_for(lock, over, kLate, [] { return false; });
        if (over.stop_requested()) return;
        narrator.note("waiting for store " + printable(narrator.setup().store) + " to " + done +
                      ": " + until());
      });
    } catch (const std::system_error&) {  // No thread to be had: then it waits in silence.
    }
  }
  // For the store to answer about a lease, which needs no answer any more when it has ended.
  SaidIfLate(const Narrator& narrator, std::string done, Nanos deadline)
      : SaidIfLate(narrator, std::move(done), [deadline] {
          const auto left = std::chrono::floor<Duration>(deadline - boottime_now());
          return "until its lease ends, in " + format_duration(left) + " at most";
        }) {}

 private:
  std::jthread thread_;  // Its end is awaited.
};

}  // namespace holdfast::cli
