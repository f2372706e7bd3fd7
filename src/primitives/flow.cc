#include "src/primitives/flow.h"

namespace holdfast::primitives {

Scope::Scope(std::shared_ptr<Core> core, const AcquireOptions& options)
    : core_(std::move(core)), stop_(options.cancel) {
  if (options.wait && *options.wait < session::kForever) {
    until_ = base::BootClock::now() + std::max(*options.wait, std::chrono::milliseconds::zero());
  }
}

void Scope::begin() {
  if (!stop_.stop_possible()) return;
  on_stop_.emplace(stop_, [this] {
    // The flow may end inside of this.
    const auto self = shared_from_this();
    cancel();
  });
}

void Scope::end() {
  on_stop_.reset();
  stop_ = {};
}

void Scope::cancel() {
  Wait wait;
  {
    const base::LocalLock lock(mutex_);
    if (std::exchange(cancelled_, true)) return;
    wait = std::exchange(wait_, {});
  }
  end_wait(wait);
}

bool Scope::cancelled() const {
  const base::LocalLock lock(mutex_);
  return cancelled_;
}

AcquireOptions Scope::within(AcquireOptions options, BootInstant latest) const {
  options.cancel = {};
  options.wait.reset();
  const BootInstant end = std::min(until_, latest);
  if (end != BootInstant::max()) {
    const auto left = std::max(end - base::BootClock::now(), session::Nanos::zero());
    options.wait = std::chrono::ceil<std::chrono::milliseconds>(left);
  }
  return options;
}

AcquireOptions Scope::briefly() const {
  constexpr std::chrono::milliseconds kBrief(5'000);
  AcquireOptions options;
  options.ttl = std::max(kBrief, core_->guarantees().min_ttl);
  return options;
}

Flow<std::optional<Lease>> Scope::take(std::string name, Mode mode, AcquireOptions options,
                                       bool may_wait) {
  if (!may_wait) co_return co_await try_acquire(name, mode, options);
  Result<Lease> lease = co_await acquire(name, mode, options);
  if (!lease) co_return lease.error();
  co_return std::optional<Lease>(*std::move(lease));
}

std::uint64_t Scope::next_step() {
  const base::LocalLock lock(mutex_);
  wait_ = {};
  return ++step_;
}

void Scope::enter(std::uint64_t step, Wait wait) {
  {
    const base::LocalLock lock(mutex_);
    if (step != step_) return;
    if (!cancelled_) {
      wait_ = std::move(wait);
      return;
    }
  }
  end_wait(wait);
}

void Scope::end_wait(const Wait& wait) {
  if (wait.acquisition) core_->cancel(wait.acquisition);
  if (wait.sleeper) core_->wake(wait.sleeper);
}

ValueNews::ValueNews(ScopePtr scope, const std::string& name)
    : scope_(std::move(scope)), state_(std::make_shared<State>(scope_->core())) {
  hear_of(name);
}

void ValueNews::hear_of(const std::string& name) {
  handles_.push_back(
      scope_->core().administration().watch_value(name, [state = state_] { state->tell(); }));
}

void ValueNews::forget() {
  const base::LocalLock lock(state_->mutex);
  state_->told = false;
  looked_ = base::BootClock::now();
}

Flow<void> ValueNews::wait(BootInstant at) {
  const Result<void> slept = co_await sleep(at);
  if (!slept || ++looks_ <= kHasty) co_return slept;
  const BootInstant calm = looked_ + kCalm;
  if (base::BootClock::now() >= calm) co_return slept;
  co_return co_await scope_->sleep(calm);
}

void ValueNews::State::tell() {
  Core::SleeperPtr woken;
  {
    const base::LocalLock lock(mutex);
    told = true;
    woken = std::exchange(sleeper, nullptr);
  }
  if (woken) core.wake(woken);
}

void ValueNews::State::enter(const Core::SleeperPtr& who) {
  {
    const base::LocalLock lock(mutex);
    if (!told) {
      sleeper = who;
      return;
    }
  }
  core.wake(who);
}

}  // namespace holdfast::primitives
