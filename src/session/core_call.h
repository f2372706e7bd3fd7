// A call of the user that is under way in the core, and a turn of the core.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "src/base/wait_word.h"
#include "src/session/core_base.h"

namespace holdfast::session {

class CoreBase::Call {
 public:
  explicit Call(CoreBase& core);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // kClosed after close() or in a forked child: then the core must not be touched.
  const Result<void>& alive() const { return alive_; }

 private:
  CoreBase& core_;
  Result<void> alive_;
};

class HOLDFAST_SCOPED_CAPABILITY CoreBase::Turn {
 public:
  // `on_loop`: the answers may gather with those of other turns.
  explicit Turn(CoreBase& core, bool on_loop = false) HOLDFAST_ACQUIRE(core.mutex_)
      : core_(core), on_loop_(on_loop) {
    core.mutex_.lock();
  }
  ~Turn() HOLDFAST_RELEASE();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  CoreBase& core_;
  const bool on_loop_;
};

// A question to the store that is not answered yet.
struct CoreBase::Asking {
  explicit Asking(CoreBase& asked) : core(asked.self()), call(std::in_place, asked) {}
  std::shared_ptr<const void> core;
  std::optional<Call> call;
};

template <typename T, typename Send>
void CoreBase::ask(const Send& send, Done<T> done) {
  if (auto alive = check_alive(); !alive) return done(alive.error());
  auto asking = std::make_shared<Asking>(*this);
  if (!asking->call->alive()) return done(asking->call->alive().error());
  loop_.rouse();
  send(request_deadline(), port::Done<T>([asking, done = std::move(done)](Result<T> result) {
         // The store may keep copies of this for longer, on threads of its own.
         const auto core = std::move(asking->core);
         done(std::move(result));
         asking->call.reset();
       }));
}

template <typename T>
Result<T> CoreBase::await(const std::function<void(Done<T>)>& start, int requests) const {
  // The port promises an answer by the deadline; this bounds the damage should a store break that.
  constexpr auto kGrace = std::chrono::seconds(10);
  struct Answer {
    base::WaitWord word;  // Set once `value` is there.
    std::optional<Result<T>> value;
  };
  const auto answer = std::make_shared<Answer>();
  start([answer, &loop = loop_](Result<T> result) {
    answer->value.emplace(std::move(result));
    loop.answer([answer] { answer->word.set(1); });
  });
  const auto limit = base::BootClock::now() + options_.client.request_timeout * requests + kGrace;
  while (answer->word.get() == 0) {
    const auto now = base::BootClock::now();
    if (now >= limit) {
      return Error(Errc::kOutcomeUnknown, "the store" + at_store() + " did not answer");
    }
    loop_.wait(answer->word, 0, limit - now);
  }
  return *std::move(answer->value);
}

}  // namespace holdfast::session
