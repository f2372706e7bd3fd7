#include "src/stores/redis/transport/primary.h"

#include <optional>
#include <utility>

namespace holdfast::stores::redis {

Result<Location> Primary::resolve(base::BootInstant deadline) {
  struct Answer {
    base::LocalMutex mutex;
    base::LocalCondition changed;
    std::optional<Result<Location>> result HOLDFAST_GUARDED_BY(mutex);
  };
  auto answer = std::make_shared<Answer>();
  refresh([answer](Result<Location> result) {
    base::LocalLock lock(answer->mutex);
    answer->result = std::move(result);
    answer->changed.notify_all();
  });
  {
    base::LocalLock lock(answer->mutex);
    while (!answer->result) {
      const auto left = deadline - base::BootClock::now();
      if (left <= left.zero()) break;
      answer->changed.wait_for(answer->mutex, left);
    }
    if (answer->result) return *answer->result;
  }
  Location known = cached();
  if (!known.endpoints.empty()) return known;
  return Error{Errc::kUnavailable, late()};
}

std::unique_ptr<Primary::Watch> Primary::watch(OnSwitch on_switch) {
  const base::LocalLock lock(watch_mutex_);
  watchers_.push_front(std::move(on_switch));
  return std::make_unique<Watch>(this, watchers_.begin());
}

Primary::Watch::~Watch() {
  if (primary_ == nullptr) return;
  const base::LocalLock lock(primary_->watch_mutex_);
  primary_->watchers_.erase(at_);
}

void Primary::tell_switch() {
  const base::LocalLock lock(watch_mutex_);
  for (const OnSwitch& each : watchers_) each();
}

}  // namespace holdfast::stores::redis
