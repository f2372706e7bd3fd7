// Handlers of asynchronous calls whose outcomes one turn of the client's loop has, posted together.
//
// To post a handler wakes its executor's thread. On the loop's processor that thread would run at
// once, find one handler, and sleep again before the next one is posted. So the loop posts one for
// all, which posts the others (holdfast/asio.h).
//
// Guarantee: all that was taken is posted when the object ends; once the program has begun to end,
// nothing is posted any more (exit_gate.h).
// Not guaranteed: that each executor is posted to once, if there are many (kCompared); an order.
// Thread-safety: one thread, and one object at a time on it. Ownership: takes the handlers.
#pragma once

#include <cstddef>
#include <vector>

#include "holdfast/detail/async.h"

namespace holdfast::session {

class GatheredHandlers {
 public:
  // A new handler is compared with that many executors, so that the effort does not grow with the
  // square of their number.
  static constexpr std::size_t kCompared = 8;

  GatheredHandlers() noexcept;
  ~GatheredHandlers();
  GatheredHandlers(const GatheredHandlers&) = delete;
  GatheredHandlers& operator=(const GatheredHandlers&) = delete;

  // The object of this thread takes it; false: there is none.
  static bool take(detail::ReadyPtr& ready);

 private:
  struct Group {
    detail::ReadyPtr first;
    std::vector<detail::ReadyPtr> others;
  };

  std::vector<Group> groups_;
};

}  // namespace holdfast::session
