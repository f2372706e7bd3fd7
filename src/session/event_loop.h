// The client's loop: one thread on which completions and pushes are delivered and deadlines fire.
//
// Guarantee: tasks run one at a time, in the order in which they were posted. The timer fires on
// boot time, so that suspend does not put a deadline off.
// Blocking: a task must not block; it would put off the news of lost leases.
// Thread-safety: post() and arm() from any thread.
#pragma once

#include <functional>
#include <memory>

#include "src/base/clock.h"
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
  // Replaces what was armed before. BootInstant::max(): never.
  void arm(base::BootInstant at) noexcept;
  // Runs what was posted before and ends the thread. Not from the loop itself.
  void stop();
  // The loop's context, for stores that talk to sockets. Only the loop's thread may run it.
  asio::io_context& io() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::session
