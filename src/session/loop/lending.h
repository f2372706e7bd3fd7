// The client's loop belongs to its own thread, or to a caller that waits and is the only one.
//
// A request by the loop's thread wakes a thread three times: the loop for the request, the loop for
// the answer, and the caller. A caller that runs the loop itself is woken once
// (docs/design/0080-lent-loop.md).
//
// Guarantee: one thread has the loop at a time, and what it did is visible to the next one. It is
// without a thread for 2 ms at most; less where a caller comes.
// Not guaranteed: which thread has it; that a caller that may have it gets it.
// Thread-safety: is_due(), put_off() and let_go() on the loop's thread; the rest on any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "src/base/local_mutex.h"

namespace holdfast::session {

class Lending {
 public:
  // --- The loop's thread.

  // A caller is about to be answered. Whether to let the loop go then: one caller, alone, has been
  // answered again and again.
  bool is_due();
  // It was due, and the loop had too much to do.
  void put_off() { answered_alone_ = 0; }
  // Tells the caller its answer; returns once this thread has the loop again.
  void let_go(const std::function<void()>& tell);

  // --- A caller that waits for an answer of the loop.

  // Whether the loop may be free for it.
  bool begin_wait();
  // True: it has the loop until end_run(). Deaf to signals before it asks, because the handler of a
  // signal would keep the loop.
  bool begin_run() { return take(Owner::kCaller); }
  // `more`: the loop has work that cannot wait for the next caller.
  void end_run(bool more);
  void end_wait() { --waiting_; }
  bool may_run() const { return alone() && !kept_; }

  // --- Anyone.

  // Whether the loop's thread has it.
  bool at_home() const { return owner_.load() == Owner::kThread; }
  bool with_caller() const { return owner_.load() == Owner::kCaller; }
  // If nobody has it, the loop's thread takes it again, now.
  void recall();
  // From now on it is never let go. A caller that has it runs no other task.
  void keep() {
    kept_ = true;
    recall();
  }
  // Until the loop's thread has it.
  void await_thread();

 private:
  enum class Owner : std::uint8_t { kThread, kNobody, kCaller };

  bool alone() const { return waiting_.load() == 1; }
  bool take(Owner owner);
  void give_to_thread();

  std::atomic<Owner> owner_{Owner::kThread};
  std::atomic<int> waiting_{0};
  std::atomic<std::uint32_t> runs_{0};  // By callers.
  std::atomic<bool> kept_{false};
  int answered_alone_ = 0;  // In succession. The loop's own.
  base::LocalMutex mutex_;  // For the sleep of the loop's thread, and for await_thread().
  base::LocalCondition returned_;
};

}  // namespace holdfast::session
