// Runs tasks after some time: the session's renewals, and its end.
//
// Not by gRPC's alarms: they wait until an instant of the wall clock, and when that is set back by
// an hour they come an hour late. Nor by a port::BootTimer alone, which is armed on the loop and
// for one thing at a time: what comes here comes from gRPC's thread, several at once, and close(),
// on whichever thread, has to be sure that no task runs any more.
//
// Thread-safety: all functions from any thread, but close() not from a task. Tasks run on the loop,
// one at a time; none after close(). Ownership: the loop outlives what waits here.
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
  // Drops what has not come to its time.
  void close();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::stores::etcd
