#include "src/session/loop/lending.h"

#include <chrono>

namespace holdfast::session {
namespace {

// To let go costs the loop's thread a sleep and a wake-up, so a caller has to be steady.
constexpr int kSteady = 8;
// The loop's thread looks so often whether the callers still come.
constexpr std::chrono::milliseconds kLook(1);

}  // namespace

bool Lending::is_due() {
  answered_alone_ = alone() ? answered_alone_ + 1 : 0;
  return answered_alone_ >= kSteady && !kept_;
}

// A caller counts itself and then looks whether somebody has the loop; whoever lets go of it says
// so and then looks for callers. One of them sees the other.
void Lending::let_go(const std::function<void()>& tell) {
  std::uint32_t seen = runs_;
  owner_ = Owner::kNobody;
  if (!may_run()) recall();
  tell();  // Last, so that the caller, which may come again at once, finds the loop free.
  const base::LocalLock lock(mutex_);
  while (!at_home()) {
    returned_.wait_for(mutex_, kLook);
    const std::uint32_t now = runs_;
    if (now == seen && take(Owner::kThread)) break;
    seen = now;
  }
  answered_alone_ = 0;
}

bool Lending::begin_wait() {
  ++waiting_;
  if (may_run()) return !at_home();
  recall();
  return false;
}

void Lending::end_run(bool more) {
  ++runs_;
  if (more) return give_to_thread();
  owner_ = Owner::kNobody;
  if (!may_run()) recall();
}

void Lending::recall() {
  if (take(Owner::kCaller)) give_to_thread();
}

void Lending::await_thread() {
  const base::LocalLock lock(mutex_);
  while (!at_home()) returned_.wait_for(mutex_, kLook);
}

bool Lending::take(Owner owner) {
  Owner nobody = Owner::kNobody;
  return owner_.compare_exchange_strong(nobody, owner);
}

void Lending::give_to_thread() {
  const base::LocalLock lock(mutex_);
  owner_ = Owner::kThread;
  returned_.notify_all();
}

}  // namespace holdfast::session
