// The client's loop, on which completions and pushes are delivered and deadlines fire. It has a
// thread; a caller that waits, and is the only one, may run it instead (lending.h).
//
// Guarantee: tasks run one at a time, in the order in which they were posted. The timer fires on
// boot time, so that suspend does not put a deadline off.
// Not guaranteed: that tasks run on one thread. Just after a lone caller has its answer, the loop
// may rest for 2 ms.
// Blocking: a task must not block; it would put off the news of lost leases.
// Thread-safety: all but the constructor, the destructor and stop() from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "src/base/clock.h"
#include "src/base/wait_word.h"
#include "src/port/store.h"

namespace asio {
class io_context;
}

namespace holdfast::session {

class EventLoop final : public port::Loop {
 public:
  // `on_timer` is called on the loop at or after the armed instant.
  explicit EventLoop(std::function<void()> on_timer);
  ~EventLoop() override;

  void post(port::Task task) override;
  void keep() override;
  // Replaces what was armed before. BootInstant::max(): never.
  void arm(base::BootInstant at) noexcept;
  // Waits for an answer of the loop: until the bits are not the seen ones, or for that long. May
  // return earlier. Not from the loop itself.
  void wait(base::WaitWord& word, std::uint32_t seen,
            std::chrono::nanoseconds limit = std::chrono::nanoseconds::max());
  // A task tells a caller in wait() its answer by this: now, or once the loop is free for the
  // caller's next wait.
  void answer(port::Task tell);
  // Work comes from a caller that does not wait: a loop that rests is run again. If it is let go
  // just then, it rests for 2 ms at most.
  void rouse();
  // A word's bits were set elsewhere than on the loop. The caller that waits for them may be asleep
  // in the loop, where nobody else tells it.
  void word_was_set();
  // Runs what was posted before and ends the thread. Not from the loop itself.
  void stop();
  // The loop's context, for stores that talk to sockets. Nobody else may run it.
  asio::io_context& io() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::session
