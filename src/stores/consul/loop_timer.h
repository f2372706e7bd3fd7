// A timer of the client's loop. Thread-safety: the loop only. Time: the monotonic clock, so a
// machine that was suspended finds it late: nobody's deadline rests on it.
//
// Not contend::LoopTimer: that one has a single task, and of two times the earlier counts, as a
// list of what is due wants it. Here the newest arm counts, with a task of its own (writes are
// sent, or their fence is tried again), and a forked child lets go of it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace asio {
class io_context;
}

namespace holdfast::stores::consul {

class LoopTimer {
 public:
  explicit LoopTimer(asio::io_context& io);
  ~LoopTimer();
  LoopTimer(const LoopTimer&) = delete;
  LoopTimer& operator=(const LoopTimer&) = delete;

  // Replaces what was armed before; never called inline, nor after stop().
  void arm(std::chrono::nanoseconds after, std::function<void()> on_fire);
  void stop();
  // In a forked child: let go of without a word to the parent's loop.
  void abandon() noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::stores::consul
