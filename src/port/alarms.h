// Tasks of a client's loop, each at its time: one boot timer for all of them.
//
// Guarantee: a task is called at most once, at its time or later, in the order of the times. It is
// never called inline by at(), nor after stop() or the destructor. A task may stop or destroy the
// alarms.
// Not guaranteed: a bound on the delay. A loop that is busy calls them when it has time.
//
// Thread-safety: the loop only; stop() and the destructor also where the loop has ended.
// Ownership: the loop outlives it. Time: boot time.
// Errors: the constructor throws std::system_error where there is no descriptor to be had.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "src/base/clock.h"
#include "src/port/store.h"

namespace asio {
class io_context;
}

namespace holdfast::port {

class Alarms {
 public:
  using Alarm = std::multimap<base::BootInstant, Task>::iterator;

  explicit Alarms(asio::io_context& io);
  ~Alarms();
  Alarms(const Alarms&) = delete;
  Alarms& operator=(const Alarms&) = delete;

  // After stop() the task is dropped.
  Alarm at(base::BootInstant when, Task task);
  // One that was not called yet.
  void cancel(Alarm alarm);
  // For good. Returns the tasks that were left, in the order of their times.
  std::vector<Task> stop() noexcept;
  // In a forked child: let go of without a word to the parent's loop.
  void abandon() noexcept;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace holdfast::port
