// A thread that runs only while the world's thread waits for it: so the journal, whose calls block,
// takes part in a world of one thread.
//
// Thread-safety: resume() from the world's thread, block() from within. Only one of the
// fibers and the world's thread runs at a time, so a seed replays a run.
#pragma once

#include <semaphore.h>

#include <functional>
#include <thread>
#include <utility>

#include "src/base/thread.h"

namespace holdfast::testing::cluster {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body) : body_(std::move(body)) {
    ::sem_init(&go_, 0, 0);
    ::sem_init(&back_, 0, 0);
  }
  ~Fiber() {
    if (thread_.joinable()) thread_.join();
    ::sem_destroy(&go_);
    ::sem_destroy(&back_);
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The one that runs; nullptr: the world's thread does.
  static Fiber*& current() {
    static Fiber* running = nullptr;
    return running;
  }

  // Returns when it blocks or has ended.
  void resume() {
    if (done_) return;
    Fiber* const before = std::exchange(current(), this);
    if (!thread_.joinable()) {
      thread_ = base::start_thread("fiber", [this] {
        wait(go_);
        body_();
        done_ = true;
        ::sem_post(&back_);
      });
    }
    ::sem_post(&go_);
    wait(back_);
    current() = before;
  }
  // Others may resume it for reasons of their own, so callers loop over their condition.
  void block() {
    ::sem_post(&back_);
    wait(go_);
  }
  bool done() const { return done_; }

 private:
  static void wait(sem_t& semaphore) {
    while (::sem_wait(&semaphore) != 0) {
    }
  }

  const std::function<void()> body_;
  // Not std::binary_semaphore, which yields to all others of a busy machine before it waits.
  sem_t go_;
  sem_t back_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace holdfast::testing::cluster
