// A loop for what is made to run on a client's: a thread of its own runs it, until it goes.
#pragma once

#include <thread>
#include <utility>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "src/port/store.h"

namespace holdfast::support {

class LoopThread final : public port::Loop {
 public:
  LoopThread() : thread_([this] { io.run(); }) {}
  ~LoopThread() override {
    work_.reset();
    thread_.join();
  }
  void post(port::Task task) override { asio::post(io, std::move(task)); }

  asio::io_context io{1};

 private:
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io);
  std::thread thread_;
};

}  // namespace holdfast::support
