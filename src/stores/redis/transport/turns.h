// When a connection's next requests are written, and how many at a time.
//
// Requests that are written together are answered together. So a crowd of callers and a server next
// door come to take turns: all requests go, all answers come, and one side idles while the other
// works. Where answers come fast, the server has half of what is in flight, so that the other half
// is with the callers meanwhile. It goes out with the next answer.
//
// A server further away gets each request at once, because there the way takes longer than the
// work. With more than kEnoughToDo to answer any server is busy, and gets more when a whole batch
// has gathered.
//
// Guarantee: requests are held back only while an answer is due, so none waits for a timer.
// Not guaranteed: that a server that was near still is. If it hangs, what is held waits with what
// was sent, until its own deadline or the end of the connection.
// Thread-safety: one thread at a time. Time: the caller's.
// Source: docs/design/0078-turns.md.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>

namespace holdfast::stores::redis {

class Turns {
 public:
  static constexpr std::size_t kEnoughToDo = 32;
  static constexpr std::size_t kWorthAWrite = 32;
  // A server with fewer to answer has next to nothing to do.
  static constexpr std::size_t kFew = 4;
  // A server is near whose answer to `number` requests takes kNear + number * kNearEach at most: a
  // round trip on one machine, and twice the time of its work.
  static constexpr std::chrono::microseconds kNear{100};
  static constexpr std::chrono::microseconds kNearEach{15};

  // `took`: from the write of a request until its answer. `number`: how many the server had then,
  // with this one. `crowd`: how many were in flight, answered ones included.
  void on_answer(std::chrono::nanoseconds took, std::size_t number, std::size_t crowd) noexcept {
    near_ = took <= kNear + kNearEach * static_cast<std::int64_t>(number);
    // Some are with their callers just now.
    crowd_ = std::max(crowd, crowd_ - crowd_ / 8);
  }
  void on_new_connection() noexcept { near_ = false; }

  // Whether what waits is to wait for the next answer.
  bool hold(std::size_t sent, std::size_t waiting) const noexcept {
    if (near_) {
      const bool room_for_more = waiting >= kWorthAWrite && sent + kWorthAWrite <= half();
      return sent >= kFew && !room_for_more;
    }
    return sent > kEnoughToDo && waiting < kWorthAWrite;
  }
  // How many the next request of a write may have, with so many `written` in it and so many left.
  std::size_t room(std::size_t written, std::size_t waiting) const noexcept {
    // More than the crowd is news, not its next turn.
    if (!near_ || waiting > crowd_) return std::numeric_limits<std::size_t>::max();
    return written >= kFew ? 0 : std::max(kFew, half()) - written;
  }
  // Whether a crowd's next answer is worth staying awake for.
  bool due_soon() const noexcept { return near_ && crowd_ > 1; }

 private:
  std::size_t half() const noexcept { return (crowd_ + 1) / 2; }

  bool near_ = false;
  std::size_t crowd_ = 0;
};

}  // namespace holdfast::stores::redis
