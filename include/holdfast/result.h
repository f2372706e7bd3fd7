// A value or an Error: std::expected's names for a standard library that does not have it yet.
//
// Guarantee: an unused result is a compiler warning. value() throws BadResultAccess when there is
// an error. Reading the wrong side by *, -> or error(), which std::expected leaves undefined,
// aborts with a message. Thread-safety: as its value's.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "holdfast/errc.h"

namespace holdfast {

template <typename T>
class Result;

// value() throws this. As std::bad_expected_access does, it carries the error.
class HOLDFAST_EXPORT BadResultAccess : public std::exception {
 public:
  explicit BadResultAccess(Error error);
  BadResultAccess(const BadResultAccess&) = default;
  BadResultAccess& operator=(const BadResultAccess&) = default;
  ~BadResultAccess() override;

  const Error& error() const noexcept { return error_; }
  // The error's message.
  const char* what() const noexcept override { return error_.message().c_str(); }

 private:
  Error error_;
};

namespace detail {
inline void check_side(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "holdfast::Result: %s read on the wrong side\n", what);
  std::abort();
}

[[noreturn]] HOLDFAST_EXPORT void throw_bad_access(Error error);

// The chaining calls of std::expected, for a result of any value category.
template <typename Self>
inline constexpr bool kHoldsNothing =
    std::is_void_v<typename std::remove_cvref_t<Self>::value_type>;

template <typename Self, typename F>
decltype(auto) call_with_value(Self&& result, F&& next) {
  if constexpr (kHoldsNothing<Self>) {
    return std::invoke(std::forward<F>(next));
  } else {
    return std::invoke(std::forward<F>(next), *std::forward<Self>(result));
  }
}

template <typename Self, typename F>
auto and_then(Self&& result, F&& next) {
  using Next = std::remove_cvref_t<decltype(call_with_value(std::forward<Self>(result),
                                                            std::forward<F>(next)))>;
  if (!result.has_value()) return Next(std::forward<Self>(result).error());
  return Next(call_with_value(std::forward<Self>(result), std::forward<F>(next)));
}

template <typename Self, typename F>
auto transform(Self&& result, F&& change) {
  using Value = std::remove_cv_t<decltype(call_with_value(std::forward<Self>(result),
                                                          std::forward<F>(change)))>;
  using Next = Result<Value>;
  if (!result.has_value()) return Next(std::forward<Self>(result).error());
  if constexpr (std::is_void_v<Value>) {
    call_with_value(std::forward<Self>(result), std::forward<F>(change));
    return Next();
  } else {
    return Next(call_with_value(std::forward<Self>(result), std::forward<F>(change)));
  }
}

template <typename Self>
std::remove_cvref_t<Self> keep_value(Self&& result) {
  if constexpr (kHoldsNothing<Self>) {
    return {};
  } else {
    return std::remove_cvref_t<Self>(*std::forward<Self>(result));
  }
}

template <typename Self, typename F>
std::remove_cvref_t<Self> or_else(Self&& result, F&& next) {
  if (result.has_value()) return keep_value(std::forward<Self>(result));
  return std::invoke(std::forward<F>(next), std::forward<Self>(result).error());
}

template <typename Self, typename F>
std::remove_cvref_t<Self> transform_error(Self&& result, F&& change) {
  if (result.has_value()) return keep_value(std::forward<Self>(result));
  return Error(std::invoke(std::forward<F>(change), std::forward<Self>(result).error()));
}
}  // namespace detail

// Guarantee: it holds exactly one of value and error, also after a move (then it is moved from).
// Not guaranteed: that a copy is cheap: it copies the value. If the move of T throws, the program
// ends.
// Errors: value() throws BadResultAccess, with the error in it.
//
// Chaining, as in std::expected: and_then(f) calls f with the value and gives the Result of f;
// transform(f) keeps the result of f as the value; or_else(f) calls f with the error, which gives a
// Result of the same type; transform_error(f) keeps the result of f as the Error.
//
// Not a std::variant: its code for each T took a tenth of the time to compile the library.
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

  T& value() & {
    if (!has_value_) detail::throw_bad_access(error_);
    return value_;
  }
  const T& value() const& {
    if (!has_value_) detail::throw_bad_access(error_);
    return value_;
  }
  T&& value() && {
    if (!has_value_) detail::throw_bad_access(std::move(error_));
    return std::move(value_);
  }
  const Error& error() const& { return detail::check_side(!has_value_, "error()"), error_; }
  Error&& error() && { return detail::check_side(!has_value_, "error()"), std::move(error_); }

  T& operator*() & { return detail::check_side(has_value_, "a value"), value_; }
  const T& operator*() const& { return detail::check_side(has_value_, "a value"), value_; }
  T&& operator*() && { return detail::check_side(has_value_, "a value"), std::move(value_); }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

  template <typename U>
  T value_or(U&& other) const& {
    return has_value_ ? value_ : static_cast<T>(std::forward<U>(other));
  }
  template <typename U>
  T value_or(U&& other) && {
    return has_value_ ? std::move(value_) : static_cast<T>(std::forward<U>(other));
  }

  template <typename F>
  auto and_then(F&& next) & {
    return detail::and_then(*this, std::forward<F>(next));
  }
  template <typename F>
  auto and_then(F&& next) const& {
    return detail::and_then(*this, std::forward<F>(next));
  }
  template <typename F>
  auto and_then(F&& next) && {
    return detail::and_then(std::move(*this), std::forward<F>(next));
  }

  template <typename F>
  auto transform(F&& change) & {
    return detail::transform(*this, std::forward<F>(change));
  }
  template <typename F>
  auto transform(F&& change) const& {
    return detail::transform(*this, std::forward<F>(change));
  }
  template <typename F>
  auto transform(F&& change) && {
    return detail::transform(std::move(*this), std::forward<F>(change));
  }

  template <typename F>
  Result or_else(F&& next) const& {
    return detail::or_else(*this, std::forward<F>(next));
  }
  template <typename F>
  Result or_else(F&& next) && {
    return detail::or_else(std::move(*this), std::forward<F>(next));
  }

  template <typename F>
  Result transform_error(F&& change) const& {
    return detail::transform_error(*this, std::forward<F>(change));
  }
  template <typename F>
  Result transform_error(F&& change) && {
    return detail::transform_error(std::move(*this), std::forward<F>(change));
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

// Nothing or an Error. Guarantee: made by default it is a success. Chaining calls f without a
// value.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  using error_type = Error;

  Result() = default;
  Result(Error failure) : error_(std::move(failure)) {}

  bool has_value() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const& {
    if (error_) detail::throw_bad_access(*error_);
  }
  void value() && {
    if (error_) detail::throw_bad_access(*std::move(error_));
  }
  void operator*() const noexcept { detail::check_side(has_value(), "a value"); }
  const Error& error() const& { return detail::check_side(!has_value(), "error()"), *error_; }
  Error&& error() && { return detail::check_side(!has_value(), "error()"), std::move(*error_); }

  template <typename F>
  auto and_then(F&& next) const& {
    return detail::and_then(*this, std::forward<F>(next));
  }
  template <typename F>
  auto and_then(F&& next) && {
    return detail::and_then(std::move(*this), std::forward<F>(next));
  }
  template <typename F>
  auto transform(F&& change) const& {
    return detail::transform(*this, std::forward<F>(change));
  }
  template <typename F>
  auto transform(F&& change) && {
    return detail::transform(std::move(*this), std::forward<F>(change));
  }
  template <typename F>
  Result or_else(F&& next) const& {
    return detail::or_else(*this, std::forward<F>(next));
  }
  template <typename F>
  Result or_else(F&& next) && {
    return detail::or_else(std::move(*this), std::forward<F>(next));
  }
  template <typename F>
  Result transform_error(F&& change) const& {
    return detail::transform_error(*this, std::forward<F>(change));
  }
  template <typename F>
  Result transform_error(F&& change) && {
    return detail::transform_error(std::move(*this), std::forward<F>(change));
  }

 private:
  std::optional<Error> error_;
};

}  // namespace holdfast
