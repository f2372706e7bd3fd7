// Prints the events from the library's notifier thread, until a signal comes or the reader is gone.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "src/cli/exit_codes.h"
#include "src/cli/options/settings.h"
#include "src/cli/process/signals.h"
#include "src/cli/run/lock_attempt.h"
#include "src/cli/text/output.h"

namespace holdfast::cli {

// Carries events from the notifier thread to the first thread, which prints them.
template <typename Event>
class EventQueue {
 public:
  static constexpr std::size_t kMost = 100'000;

  // False: nobody reads what is printed, and so many wait. Then those are dropped, and it is the
  // caller's to say so.
  bool push(const Event& event) {
    const std::lock_guard guard(mutex_);
    const bool fits = events_.size() < kMost;
    if (!fits) events_.clear();
    events_.push_back(event);
    bell_.ring();
    return fits;
  }
  std::deque<Event> take() {
    const std::lock_guard guard(mutex_);
    bell_.quiet();
    return std::exchange(events_, {});
  }
  int fd() const { return bell_.fd(); }

  // No event comes any more.
  void fail(const std::string& why) {
    const std::lock_guard guard(mutex_);
    trouble_ = why;
    bell_.ring();
  }
  // Empty: events may come.
  std::string trouble() {
    const std::lock_guard guard(mutex_);
    return trouble_;
  }

 private:
  std::mutex mutex_;
  std::deque<Event> events_;
  std::string trouble_;
  Bell bell_;
};

// A store that is not the one of before ends the command; the rest is told.
template <typename Event>
Alarms alarms_to(const std::shared_ptr<EventQueue<Event>>& queue, const CommonOptions& common) {
  const Alarms others = alarms_for(common);
  return Alarms([queue, tell = others.sink()](const LogEvent& event) {
    const bool another_store =
        event.error == Errc::kCorruptState || event.error == Errc::kVersionMismatch;
    event.event == "watch_blind" && another_store ? queue->fail(event.text) : tell(event);
  });
}

// Returns the exit status. `count`: ends after so many.
template <typename Event, typename Show>
int follow(EventQueue<Event>& queue, const Signals& signals, std::optional<int> count, Show show) {
  for (;;) {
    std::array<pollfd, 3> watched{
        {{signals.fd(), POLLIN, 0}, {queue.fd(), POLLIN, 0}, {STDOUT_FILENO, 0, 0}}};
    ::poll(watched.data(), watched.size(), -1);
    for (const Event& event : queue.take()) {
      print(show(event));
      if (count && --*count == 0) return flush_output() ? 0 : kExitError;
    }
    if (!flush_output()) return kExitError;
    if (const auto trouble = queue.trouble(); !trouble.empty()) {
      complain(trouble);
      return kExitError;
    }
    if ((watched[2].revents & (POLLERR | POLLHUP)) != 0) return 0;  // The reader has gone.
    if (signals.next_ending()) return 0;
  }
}

}  // namespace holdfast::cli
