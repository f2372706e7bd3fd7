// Waits for a time that belong to no acquisition.
#include <utility>

#include "src/session/core.h"
#include "src/session/core_call.h"

namespace holdfast::session {

struct Core::Sleeper {
  std::multimap<BootInstant, SleeperPtr>::iterator slot;
  Done<void> done;  // Empty: it has been called, or is about to be.
};

Core::SleeperPtr Core::sleep(BootInstant at, Done<void> done) {
  if (auto alive = check_alive(); !alive) return done(alive), nullptr;
  auto sleeper = std::make_shared<Sleeper>();
  const Turn turn(*this);
  if (closed_) {
    answers_.emplace_back([done = std::move(done), error = closed_error()] { done(error); });
    return nullptr;
  }
  ++calls_under_way_;
  sleeper->done = std::move(done);
  sleeper->slot = sleepers_.emplace(at, sleeper);
  arm(at);
  return sleeper;
}

void Core::wake(const SleeperPtr& sleeper) {
  if (forked()) return;
  loop_.post([this, sleeper] {
    const Turn turn(*this);
    rouse(sleeper, {});
  });
}

void Core::wake_sleepers(BootInstant now) {
  while (!sleepers_.empty() && sleepers_.begin()->first <= now) {
    rouse(sleepers_.begin()->second, {});
  }
  if (!sleepers_.empty()) arm(sleepers_.begin()->first);
}

// Ends the sleep once. The core lives until the sleeper has been told.
void Core::rouse(const SleeperPtr& sleeper, const Result<void>& why) {
  if (!sleeper->done) return;
  answers_.emplace_back(
      [self = shared_from_this(), done = std::exchange(sleeper->done, nullptr), why] {
        done(why);
        self->end_call();
      });
  sleepers_.erase(sleeper->slot);
}

}  // namespace holdfast::session
