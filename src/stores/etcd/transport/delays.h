// Runs tasks after a delay: the session's renewals, and its end.
//
// A port::BootTimer alone would not do: it is armed on the loop, and for one task at a time. Tasks
// come here from any thread, several at once, and after close() none may run.
//
// Thread-safety: all functions from any thread, except close() from a task. Tasks run on the loop,
// one at a time; none after close(). Ownership: the loop outlives the tasks.
// Time: boot time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace asio {
class io_context;
}

namespace holdfast::stores::etcd {

class Delays {
 public:
  explicit Delays(asio::io_context& io);
  ~Delays();
  Delays(const Delays&) = delete;
  Delays& operator=(const Delays&) = delete;

  void after(std::chrono::nanoseconds time, std::function<void()> task);
  // Drops the tasks that still wait.
  void close();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::stores::etcd
