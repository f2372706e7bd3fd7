// For tests: a reader of pushes that hears nothing, because the test pushes by the loop. It tells
// which thread listens.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "src/port/store.h"

namespace holdfast::session {

// Busy machines stand still for seconds.
inline constexpr std::chrono::seconds kListenerPatience{60};

class DeafReader final : public port::PushReader {
 public:
  void listen() override {
    std::unique_lock lock(mutex_);
    listener_ = std::this_thread::get_id();
    ++listens_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return nudged_; });
    nudged_ = false;
    listener_ = {};
  }
  void rest() override {
    const std::lock_guard lock(mutex_);
    ++rests_;
    changed_.notify_all();
  }
  void nudge() noexcept override {
    const std::lock_guard lock(mutex_);
    nudged_ = true;
    changed_.notify_all();
  }

  void await_listener(std::thread::id id) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kListenerPatience, [&] { return listener_ == id; }));
  }
  int listens() {
    const std::lock_guard lock(mutex_);
    return listens_;
  }
  int rests() {
    const std::lock_guard lock(mutex_);
    return rests_;
  }
  void await_rests(int count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kListenerPatience, [&] { return rests_ >= count; }));
    EXPECT_EQ(rests_, count);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread::id listener_;
  bool nudged_ = false;
  int listens_ = 0;
  int rests_ = 0;
};

}  // namespace holdfast::session
