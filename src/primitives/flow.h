// Calls that take several requests, as coroutines on the core's asynchronous calls.
//
// A flow is written once and serves both forms: start_flow() makes a Start of it, and the blocking
// call waits for that (detail::wait_for()). It runs on whichever thread brings the next answer, so
// it must neither block nor run code of the user. One co_await per statement, and nothing but a
// plain expression beside it: gcc 12 frees temporaries twice otherwise.
//
// Guarantee: a flow ends exactly once. A cancelled flow is told kCancelled by the wait under way,
// or by the next one that it begins. Its cleaning up is not cancelled. Leases that it holds in
// variables are given back when it ends without them.
//
// Thread-safety: one thread at a time runs a flow; Scope::cancel() may be called on any.
// Ownership: the coroutine owns its scope; the scope keeps the core.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "holdfast/detail/async.h"
#include "src/base/local_mutex.h"
#include "src/primitives/moved_lease.h"
#include "src/primitives/start.h"
#include "src/session/core.h"

namespace holdfast::primitives {

using detail::ticket;
using session::BootInstant;
using session::Core;

// Awaits a callback's result. `start` is called once, with the callback.
template <typename T, typename StartCall>
class Asked {
 public:
  explicit Asked(StartCall start) : start_(std::move(start)) {}

  bool await_ready() const { return false; }
  bool await_suspend(std::coroutine_handle<> flow) {
    flow_ = flow;
    start_([this](Result<T> answer) {
      answer_.emplace(std::move(answer));
      if (met_.exchange(true)) flow_.resume();
    });
    // The answer may be here: then the flow goes on without having slept.
    return !met_.exchange(true);
  }
  Result<T> await_resume() { return *std::move(answer_); }

 private:
  StartCall start_;
  std::coroutine_handle<> flow_;
  std::optional<Result<T>> answer_;
  std::atomic<bool> met_{false};  // Set by whoever comes first: the sleeper or the answer.
};

template <typename T, typename StartCall>
Asked<T, StartCall> asked(StartCall start) {
  return Asked<T, StartCall>(std::move(start));
}

template <typename T>
class [[nodiscard]] Flow {
 public:
  struct promise_type;
  using Frame = std::coroutine_handle<promise_type>;

  struct promise_type {
    Core::Done<T> done;
    std::optional<Result<T>> result;

    Flow get_return_object() { return Flow(Frame::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct End {
      bool await_ready() noexcept { return false; }
      void await_suspend(Frame frame) noexcept {
        auto tell = std::move(frame.promise().done);
        auto ending = *std::move(frame.promise().result);
        frame.destroy();  // Its resources are given back before anybody is told.
        tell(std::move(ending));
      }
      void await_resume() noexcept {}
    };
    End final_suspend() noexcept { return {}; }
    void return_value(Result<T> value) { result.emplace(std::move(value)); }
    void unhandled_exception() noexcept { std::terminate(); }  // Out of memory.
  };

  Flow(Flow&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Flow& operator=(Flow&&) = delete;
  ~Flow() {
    if (frame_) frame_.destroy();
  }

  // Runs it; `done` may be called before this returns.
  void start(Core::Done<T> done) && {
    const Frame frame = std::exchange(frame_, nullptr);
    frame.promise().done = std::move(done);
    frame.resume();
  }

  // A flow inside of a flow.
  auto operator co_await() && {
    return asked<T>([flow = std::move(*this)](Core::Done<T> done) mutable {
      std::move(flow).start(std::move(done));
    });
  }

 private:
  explicit Flow(Frame frame) : frame_(frame) {}
  Frame frame_;
};

// The frame of one call of the user: its deadline, its cancellation, and the steps of its flow.
class Scope final : public detail::Flowing, public std::enable_shared_from_this<Scope> {
 public:
  // The options `wait` and `cancel` are the call's own.
  Scope(std::shared_ptr<Core> core, const AcquireOptions& options);
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() override = default;

  void begin();  // Heeds `cancel` from here on.
  void end();    // And not any more.
  void cancel() override;
  bool cancelled() const;

  Core& core() const { return *core_; }
  const std::shared_ptr<Core>& shared_core() const { return core_; }
  bool is_over() const { return base::BootClock::now() >= until_; }
  BootInstant until() const { return until_; }
  Error cancelled_error() const { return {Errc::kCancelled, "the call was cancelled"}; }
  Error timed_out_error() const { return {Errc::kTimedOut, "the time of the call is over"}; }
  // For a lock that is held while a value is changed.
  AcquireOptions briefly() const;

 private:
  template <typename Ask>
  auto wait_for_lease(std::string name, Ask ask) {
    return asked<Lease>(
        [this, name = std::move(name), ask = std::move(ask)](const Core::Done<Lease>& done) {
          const std::uint64_t step = next_step();
          if (cancelled()) return done(cancelled_error());
          enter(step, {ask([name, done](Result<Core::AcquisitionPtr> got) {
                         done(detail::as_lease(std::move(got), name));
                       }),
                       nullptr});
        });
  }

 public:
  // --- Steps. A waiting step ends with kCancelled, or with kTimedOut when the time is over.

  // The lease of a lock; the options' wait and cancel are replaced by the call's own. Not later
  // than `latest` and the call's end.
  auto acquire(std::string name, Mode mode, AcquireOptions options,
               BootInstant latest = BootInstant::max()) {
    return wait_for_lease(name, [this, name, mode, options = std::move(options),
                                 latest](Core::Done<Core::AcquisitionPtr> done) {
      return core_->acquire(name, mode, within(options, latest), /*may_wait=*/true,
                            std::move(done));
    });
  }

  // Acquires a lock of the library's own. The options' wait belongs to that lock, and may be longer
  // than the call's.
  auto acquire(session::InnerName name, AcquireOptions options) {
    return wait_for_lease(name.text(), [this, name, options = std::move(options)](
                                           Core::Done<Core::AcquisitionPtr> done) {
      return core_->acquire(name, options, std::move(done));
    });
  }

  // acquire(), or try_acquire() for a call that is not to wait. nullopt: the lock is not free.
  Flow<std::optional<Lease>> take(std::string name, Mode mode, AcquireOptions options,
                                  bool may_wait);

  // Not later than `at` and the call's end. `tell` is given the sleeper, for others to wake it.
  auto sleep(BootInstant at, std::function<void(const Core::SleeperPtr&)> tell = nullptr) {
    return asked<void>([this, at, tell = std::move(tell)](const Core::Done<void>& done) {
      const std::uint64_t step = next_step();
      if (cancelled()) return done(cancelled_error());
      if (is_over()) return done(timed_out_error());
      auto sleeper = core_->sleep(std::min(at, until_), [this, done](Result<void> slept) {
        if (slept && cancelled()) slept = cancelled_error();
        done(std::move(slept));
      });
      if (!sleeper) return;
      if (tell) tell(sleeper);
      enter(step, {nullptr, std::move(sleeper)});
    });
  }

  // --- Steps that do not wait for others, and are not cancelled. About a lease: by its ticket(),
  // so that the lease may go meanwhile.

  auto try_acquire(std::string name, Mode mode, AcquireOptions options) {
    return asked<std::optional<Lease>>(
        [this, name = std::move(name), mode,
         options = std::move(options)](const Core::Done<std::optional<Lease>>& done) {
          core_->acquire(
              name, mode, within(options), /*may_wait=*/false,
              [done](Result<Core::AcquisitionPtr> got) { done(detail::as_tried(std::move(got))); });
        });
  }

  auto release(Core::AcquisitionPtr held) {
    return asked<void>([this, held = std::move(held)](Core::Done<void> done) {
      core_->release(held, std::move(done));
    });
  }

  auto set_value(Core::AcquisitionPtr held, std::string value) {
    return asked<void>(
        [this, held = std::move(held), value = std::move(value)](Core::Done<void> done) {
          core_->set_value(held, value, std::move(done));
        });
  }

  auto get_value(std::string name) {
    return asked<std::string>([this, name = std::move(name)](Core::Done<std::string> done) {
      core_->administration().get_value(name, std::move(done));
    });
  }

  auto resize(std::string name, std::uint32_t capacity) {
    return asked<bool>([this, name = std::move(name), capacity](Core::Done<bool> done) {
      core_->administration().resize(name, capacity, std::move(done));
    });
  }

  // Lets go of a lease that the store keeps for so long from now on, and sets the value with it.
  auto keep(Core::AcquisitionPtr held, std::chrono::milliseconds time,
            std::optional<std::string> value) {
    return asked<void>(
        [this, held = std::move(held), time, value = std::move(value)](Core::Done<void> done) {
          core_->leave_to_store(held, time, value, std::move(done));
        });
  }

  auto inspect(std::string name) {
    return asked<std::optional<LockInfo>>(
        [this, name = std::move(name)](Core::Done<std::optional<LockInfo>> done) {
          core_->administration().inspect(name, std::move(done));
        });
  }

 private:
  struct Wait {
    Core::AcquisitionPtr acquisition;
    Core::SleeperPtr sleeper;
  };
  AcquireOptions within(AcquireOptions options, BootInstant latest = BootInstant::max()) const;
  std::uint64_t next_step();
  // The wait that belongs to that step, unless the flow is past it already.
  void enter(std::uint64_t step, Wait wait);
  void end_wait(const Wait& wait);

  const std::shared_ptr<Core> core_;
  BootInstant until_ = BootInstant::max();  // When the call's time is over; max(): never.
  std::stop_token stop_;
  mutable base::LocalMutex mutex_;
  bool cancelled_ HOLDFAST_GUARDED_BY(mutex_) = false;
  std::uint64_t step_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  Wait wait_ HOLDFAST_GUARDED_BY(mutex_);
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};
using ScopePtr = std::shared_ptr<Scope>;

// The pauses between looks at a value, longer each time.
class Pauses {
 public:
  BootInstant next() {
    const auto pause = pause_;
    pause_ = std::min(2 * pause_, kLongest);
    return base::BootClock::now() + pause;
  }

 private:
  static constexpr std::chrono::milliseconds kLongest{500};
  std::chrono::milliseconds pause_{5};
};

// Ends a sleep when a value may have changed, where the store can tell (Store::watch_value()). A
// notification before forget() ends no sleep.
class ValueNews {
 public:
  ValueNews(ScopePtr scope, const std::string& name);
  ValueNews(const ValueNews&) = delete;
  ValueNews& operator=(const ValueNews&) = delete;

  void hear_of(const std::string& name);
  // Before each look.
  void forget();
  // Until `at` at the latest. After the first few looks there is a pause, so that a value which
  // changes all the time is not read all the time.
  Flow<void> wait(BootInstant at);

 private:
  struct State {
    explicit State(Core& of) : core(of) {}
    void tell();
    void enter(const Core::SleeperPtr& who);

    Core& core;  // The notification runs on its loop.
    base::LocalMutex mutex;
    bool told HOLDFAST_GUARDED_BY(mutex) = false;
    Core::SleeperPtr sleeper HOLDFAST_GUARDED_BY(mutex);
  };

  auto sleep(BootInstant at) {
    return scope_->sleep(
        at, [state = state_](const Core::SleeperPtr& sleeper) { state->enter(sleeper); });
  }

  static constexpr int kHasty = 8;  // So many looks are made at once.
  static constexpr std::chrono::milliseconds kCalm{20};

  const ScopePtr scope_;
  const std::shared_ptr<State> state_;
  std::vector<port::WatchHandle> handles_;
  int looks_ = 0;
  BootInstant looked_{};
};

// Makes the state that a handle and its copies share, from its parts. (It is an aggregate, which
// std::make_shared() cannot make everywhere.)
template <typename State, typename... Parts>
std::shared_ptr<State> make_state(Parts&&... parts) {
  return std::shared_ptr<State>(new State{std::forward<Parts>(parts)...});
}

// The answer of a flow that waited, and so never gives nullopt.
template <typename T>
Flow<T> whole(Flow<std::optional<T>> flow) {
  Result<std::optional<T>> answer = co_await std::move(flow);
  if (!answer) co_return answer.error();
  co_return std::move(**answer);
}

// Makes a Start of a flow, which gets the scope, and `args` after it.
template <typename T, typename... Parameters, typename... Args>
detail::Start<T> start_flow(std::shared_ptr<Core> core, AcquireOptions options,
                            Flow<T> (*make)(ScopePtr, Parameters...), Args... args) {
  return [core = std::move(core), options = std::move(options), make,
          ... args = std::move(args)](detail::ReceiverPtr<T> to) -> detail::Handle {
    if (core->forked()) {
      detail::deliver<T>(std::move(to), core->forked_error());
      return {};
    }
    auto scope = std::make_shared<Scope>(core, options);
    Flow<T> flow = make(scope, args...);
    scope->begin();
    std::move(flow).start([to = std::move(to), scope](Result<T> result) mutable {
      scope->end();
      detail::deliver(std::move(to), std::move(result));
    });
    return {core, nullptr, std::move(scope)};
  };
}

// The same for a call on a lease: the flow gets the lease's ticket after the scope.
template <typename T, typename... Parameters, typename... Args>
detail::Start<T> start_flow_on(const Lease& lease, AcquireOptions options,
                               Flow<T> (*make)(ScopePtr, Core::AcquisitionPtr, Parameters...),
                               Args... args) {
  auto held = ticket(lease);
  if (!held) return detail::start_failed<T>(moved_lease_error());
  auto core = held->core;
  return start_flow(std::move(core), std::move(options), make, std::move(held), std::move(args)...);
}

}  // namespace holdfast::primitives
