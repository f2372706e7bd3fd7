// A value or an Error: std::expected's names for a standard library that does not have it yet.
//
// Guarantee: an unused result is a compiler warning; reading the wrong side aborts with a message
// rather than being undefined.
// Thread-safety: as its value's.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "holdfast/errc.h"

namespace holdfast {

namespace detail {
inline void check_side(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "holdfast::Result: %s read on the wrong side\n", what);
  std::abort();
}
}  // namespace detail

// Guarantee: exactly one of value and error is there, also after a move (then it is moved from).
// Not guaranteed: that it is cheap to copy; it copies its value.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = Error;

  // Implicit on purpose: `return lease;` and `return Error{...};` both read well.
  Result(T held) : state_(std::in_place_index<0>, std::move(held)) {}
  Result(Error failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  T& value() & { return detail::check_side(has_value(), "value()"), *std::get_if<0>(&state_); }
  const T& value() const& {
    return detail::check_side(has_value(), "value()"), *std::get_if<0>(&state_);
  }
  T&& value() && {
    return detail::check_side(has_value(), "value()"), std::move(*std::get_if<0>(&state_));
  }
  const Error& error() const& {
    return detail::check_side(!has_value(), "error()"), *std::get_if<1>(&state_);
  }
  Error&& error() && {
    return detail::check_side(!has_value(), "error()"), std::move(*std::get_if<1>(&state_));
  }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  template <typename U>
  T value_or(U&& other) && {
    return has_value() ? std::move(*this).value() : static_cast<T>(std::forward<U>(other));
  }

  template <typename F>
  auto and_then(F&& next) && -> std::invoke_result_t<F, T&&> {
    if (!has_value()) return std::move(*this).error();
    return std::invoke(std::forward<F>(next), std::move(*this).value());
  }

 private:
  std::variant<T, Error> state_;
};

// Nothing or an Error. Guarantee: made by default it is a success.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  using error_type = Error;

  Result() = default;
  Result(Error failure) : error_(std::move(failure)) {}

  bool has_value() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const { detail::check_side(has_value(), "value()"); }
  const Error& error() const& { return detail::check_side(!has_value(), "error()"), *error_; }
  Error&& error() && { return detail::check_side(!has_value(), "error()"), std::move(*error_); }

 private:
  std::optional<Error> error_;
};

}  // namespace holdfast
