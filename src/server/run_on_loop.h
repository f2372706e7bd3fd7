// Runs a task on the thread of a loop, for a caller on another thread.
//
// Guarantee: the task has ended when this returns.
// Not guaranteed: that it ends. It never does where the loop does not run, or where the loop's own
// thread calls.
//
// Thread-safety: any thread but the loop's. Blocking: until the task has ended.
#pragma once

#include <future>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

namespace holdfast::server {

template <typename Task>
void run_on_loop(asio::io_context& io, Task task) {
  std::promise<void> ended;
  asio::post(io, [&] {
    task();
    ended.set_value();
  });
  ended.get_future().wait();
}

}  // namespace holdfast::server
