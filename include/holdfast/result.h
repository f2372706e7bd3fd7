// A value or an Error: std::expected's names for a standard library that does not have it yet.
//
// Guarantee: an unused result is a compiler warning; reading the wrong side aborts with a message
// rather than being undefined.
// Thread-safety: as its value's.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

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
// Not guaranteed: that it is cheap to copy; it copies its value. A move of T that throws ends the
// program.
//
// Not by a std::variant: what that makes of each T took a tenth of the time to compile the library.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = Error;

  // Implicit on purpose: `return lease;` and `return Error{...};` both read well.
  Result(T held) : has_value_(true), value_(std::move(held)) {}
  Result(Error failure) : has_value_(false), error_(std::move(failure)) {}

  Result(const Result& other) requires std::is_copy_constructible_v<T>
      : has_value_(other.has_value_) {
    if (has_value_) {
      std::construct_at(&value_, other.value_);
    } else {
      std::construct_at(&error_, other.error_);
    }
  }
  Result(Result&& other) noexcept : has_value_(other.has_value_) { take(other); }
  Result& operator=(Result other) noexcept {
    end();
    has_value_ = other.has_value_;
    take(other);
    return *this;
  }
  ~Result() { end(); }

  bool has_value() const noexcept { return has_value_; }
  explicit operator bool() const noexcept { return has_value_; }

  T& value() & { return detail::check_side(has_value_, "value()"), value_; }
  const T& value() const& { return detail::check_side(has_value_, "value()"), value_; }
  T&& value() && { return detail::check_side(has_value_, "value()"), std::move(value_); }
  const Error& error() const& { return detail::check_side(!has_value_, "error()"), error_; }
  Error&& error() && { return detail::check_side(!has_value_, "error()"), std::move(error_); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  template <typename U>
  T value_or(U&& other) && {
    return has_value_ ? std::move(*this).value() : static_cast<T>(std::forward<U>(other));
  }

  template <typename F>
  auto and_then(F&& next) && -> std::invoke_result_t<F, T&&> {
    if (!has_value_) return std::move(*this).error();
    return std::invoke(std::forward<F>(next), std::move(*this).value());
  }

 private:
  // Makes the side that has_value_ names.
  void take(Result& other) noexcept {
    if (has_value_) {
      std::construct_at(&value_, std::move(other.value_));
    } else {
      std::construct_at(&error_, std::move(other.error_));
    }
  }
  void end() noexcept {
    if (has_value_) {
      std::destroy_at(&value_);
    } else {
      std::destroy_at(&error_);
    }
  }

  bool has_value_;
  union {
    T value_;
    Error error_;
  };
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
