// The library's reports on the store while a command runs: one line on stderr for each.
//
// Thread-safety: the sink is called by the library's thread, count() by any.
// Ownership: the sink may outlive this object.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "holdfast/log_event.h"

namespace holdfast::cli {

class Alarms {
 public:
  using Clock = std::chrono::steady_clock;
  using Tell = std::function<void(const LogEvent& event)>;

  // A line that repeats within this time is printed once.
  static constexpr auto kSame = std::chrono::seconds(3);

  // `tell`: relay(), whose text is safe for a terminal; empty: nothing is said, but counted.
  explicit Alarms(Tell tell);

  // For ClientOptions::log_event.
  std::function<void(const LogEvent& event)> sink() const;

  // Prints the line, unless another place does or it was printed just now.
  void hear(const LogEvent& event, Clock::time_point now) const;

  // The number of lines that differ from the one before.
  std::size_t count() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::cli
