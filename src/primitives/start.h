// How asynchronous calls are started: what makes a Start (holdfast/detail/async.h) of a call of the
// core, or of a flow.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "holdfast/detail/async.h"
#include "src/base/exit_gate.h"
#include "src/primitives/lease_access.h"
#include "src/session/core.h"
#include "src/session/names.h"

namespace holdfast::detail {

// Completes the receiver, unless the program has begun to end. The receiver's objects may be gone
// then, so it is leaked on purpose and not destroyed.
template <typename T>
void deliver(ReceiverPtr<T> to, Result<T> result) {
  const base::ExitPassage passage;
  if (!passage) {
    static_cast<void>(new ReceiverPtr<T>(std::move(to)));
    return;
  }
  Receiver<T>& receiver = *to;
  receiver.complete(std::move(to), std::move(result));
}

// The receiver is let go of with the answer, whatever copies of the function are left.
template <typename T>
session::Core::Done<T> to_receiver(ReceiverPtr<T> to) {
  return
      [to = std::move(to)](Result<T> result) mutable { deliver(std::move(to), std::move(result)); };
}

// Starts a call that Async::cancel() cannot end. The call gets a function that tells the receiver.
template <typename T, typename Call>
Start<T> start(Call call) {
  return [call = std::move(call)](ReceiverPtr<T> to) mutable -> Handle {
    call(to_receiver(std::move(to)));
    return {};
  };
}

// Starts a call that fails at once.
template <typename T>
Start<T> start_failed(Error error) {
  return start<T>([error = std::move(error)](const session::Core::Done<T>& done) { done(error); });
}

// --- Blocking calls that are asynchronous ones, waited for.

template <typename T>
class Waiter final : public Receiver<T> {
 public:
  std::future<Result<T>> answer() { return answer_.get_future(); }
  void complete(ReceiverPtr<T>, Result<T> result) override { answer_.set_value(std::move(result)); }

 private:
  std::promise<Result<T>> answer_;
};

template <typename T>
Result<T> wait_for(Start<T> start) {
  auto waiter = std::make_shared<Waiter<T>>();
  auto answer = waiter->answer();
  start(waiter);
  return answer.get();
}

// --- Grants of the core as leases.

inline Result<Lease> as_lease(Result<session::Core::AcquisitionPtr> got, const std::string& name) {
  if (!got) return std::move(got).error();
  if (*got != nullptr) return LeaseAccess::make(*std::move(got));
  return Error(Errc::kTimedOut, "lock '" + session::printable(name) + "' is held elsewhere");
}

inline Result<std::optional<Lease>> as_tried(Result<session::Core::AcquisitionPtr> got) {
  if (!got) return std::move(got).error();
  if (*got == nullptr) return std::optional<Lease>();
  return std::optional<Lease>(LeaseAccess::make(*std::move(got)));
}

// Starts a call that asks the core for a lock. `ask` gets the function for the core's answer, and
// returns the wait; `give` makes the caller's answer of it.
template <typename T, typename Ask, typename Give>
Start<T> start_asking(std::shared_ptr<session::Core> core, Ask ask, Give give) {
  return [core = std::move(core), ask = std::move(ask),
          give = std::move(give)](ReceiverPtr<T> to) mutable -> Handle {
    auto wait = ask(*core, [to = std::move(to), give = std::move(give)](
                               Result<session::Core::AcquisitionPtr> got) mutable {
      deliver(std::move(to), give(std::move(got)));
    });
    return {core, std::move(wait)};
  };
}

template <typename Ask>
Start<Lease> start_lease(std::shared_ptr<session::Core> core, std::string name, Ask ask) {
  return start_asking<Lease>(
      std::move(core), std::move(ask),
      [name = std::move(name)](auto got) { return as_lease(std::move(got), name); });
}

inline auto asking_for(std::string name, Mode mode, AcquireOptions options, bool may_wait) {
  return [name = std::move(name), mode, options = std::move(options), may_wait](
             session::Core& at, session::Core::Done<session::Core::AcquisitionPtr> done) mutable {
    return at.acquire(std::move(name), mode, std::move(options), may_wait, std::move(done));
  };
}

inline Start<Lease> start_acquire(std::shared_ptr<session::Core> core, const std::string& name,
                                  Mode mode, AcquireOptions options) {
  return start_lease(std::move(core), name,
                     asking_for(name, mode, std::move(options), /*may_wait=*/true));
}

inline Start<std::optional<Lease>> start_try_acquire(std::shared_ptr<session::Core> core,
                                                     std::string name, Mode mode,
                                                     AcquireOptions options) {
  return start_asking<std::optional<Lease>>(
      std::move(core), asking_for(std::move(name), mode, std::move(options), /*may_wait=*/false),
      [](auto got) { return as_tried(std::move(got)); });
}

}  // namespace holdfast::detail
