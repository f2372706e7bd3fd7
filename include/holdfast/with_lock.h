// Calls an action under a lock, of whichever primitive.
//
// Example (examples/primitives.cc#with_lock):
//   holdfast::Mutex order = client.mutex("orders/42");
//   auto charged = [](holdfast::Lease& lease) { return charge("order 42", lease.token()); };
//   auto later = [](const holdfast::Error& why) { return "not charged: " + why.message(); };
//   return holdfast::with_lock(order, {.wait = 5s, .ttl = 30s}, charged, later);
//
// A primitive that takes more than options comes as a call: [&] { return pool.acquire(2); }
//
// Guarantee: exactly one of action and otherwise is called, once, on this thread. The lock is given
// back, and the store asked for it, before this returns, and before an exception of the action goes
// on to the caller.
// Not guaranteed: that the lock lasts as long as the action. A long action looks at lease.lost(),
// and passes lease.token() to what it writes to.
//
// Answer: the value of the action, or of `otherwise`; each may return a plain value, nothing, or a
// Result. Without `otherwise`: the error of acquire().
// Errors: that of the action; else that of the release. kLost and kBroken say that the lock was
// lost while the action ran, so that somebody else may have held it meanwhile: the action's value
// is dropped. kTimedOut where the lock was only tried, and was not free.
// Thread-safety, time and ownership: as of the primitive.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "holdfast/errc.h"
#include "holdfast/options.h"
#include "holdfast/result.h"

namespace holdfast {
namespace detail {

template <typename T>
struct AsResult {
  using type = Result<T>;
};
template <typename T>
struct AsResult<Result<T>> {
  using type = Result<T>;
};
template <typename T>
using AsResultOf = typename AsResult<std::remove_cvref_t<T>>::type;

template <typename F, typename... Args>
auto result_of(F&& call, Args&&... args) {
  using Returned = std::invoke_result_t<F, Args...>;
  if constexpr (std::is_void_v<Returned>) {
    std::invoke(std::forward<F>(call), std::forward<Args>(args)...);
    return Result<void>();
  } else {
    return AsResultOf<Returned>(std::invoke(std::forward<F>(call), std::forward<Args>(args)...));
  }
}

template <typename Held>
Result<void> give_back(Held& held) {
  if constexpr (requires { held.resign(); }) {
    return held.resign();
  } else {
    return held.release();
  }
}

template <typename Held, typename Action>
auto act_and_release(Held& held, Action&& action) {
  auto answer = [&] {
    try {
      return result_of(std::forward<Action>(action), held);
    } catch (...) {
      static_cast<void>(give_back(held));
      throw;
    }
  }();
  const Result<void> released = give_back(held);
  if (answer && !released) answer = released.error();
  return answer;
}

// The lease in an answer of acquire() or try_acquire().
template <typename T>
Result<T> taken(Result<T> answer) {
  return answer;
}
template <typename T>
Result<T> taken(Result<std::optional<T>> answer) {
  if (!answer) return std::move(answer).error();
  if (!*answer) return Error(Errc::kTimedOut, "the lock is held elsewhere, and was only tried");
  return **std::move(answer);
}

}  // namespace detail

// Gives a lock: called without arguments, it answers as acquire() or try_acquire() does.
template <typename T>
concept Acquires = std::invocable<T&>;
// A primitive that needs no more than options.
template <typename T>
concept AcquiresWithOptions = requires(T& lock, AcquireOptions options) {
  lock.acquire(std::move(options));
};

template <Acquires Acquire, typename Action, std::invocable<const Error&> Otherwise>
auto with_lock(Acquire&& acquire, Action&& action, Otherwise&& otherwise) {
  auto held = detail::taken(std::invoke(std::forward<Acquire>(acquire)));
  using Answer = decltype(detail::act_and_release(*held, std::forward<Action>(action)));
  if (held) return detail::act_and_release(*held, std::forward<Action>(action));
  return Answer(detail::result_of(std::forward<Otherwise>(otherwise), held.error()));
}

template <Acquires Acquire, typename Action>
auto with_lock(Acquire&& acquire, Action&& action) {
  auto held = detail::taken(std::invoke(std::forward<Acquire>(acquire)));
  using Answer = decltype(detail::act_and_release(*held, std::forward<Action>(action)));
  if (!held) return Answer(std::move(held).error());
  return detail::act_and_release(*held, std::forward<Action>(action));
}

template <AcquiresWithOptions Lock, typename Action, std::invocable<const Error&> Otherwise>
auto with_lock(Lock&& lock, AcquireOptions options, Action&& action, Otherwise&& otherwise) {
  return with_lock([&] { return lock.acquire(std::move(options)); }, std::forward<Action>(action),
                   std::forward<Otherwise>(otherwise));
}

template <AcquiresWithOptions Lock, typename Action>
auto with_lock(Lock&& lock, AcquireOptions options, Action&& action) {
  return with_lock([&] { return lock.acquire(std::move(options)); }, std::forward<Action>(action));
}

}  // namespace holdfast
