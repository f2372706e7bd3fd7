// How a lock is asked for: alone, together with other readers, or as n of N permits.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "holdfast/export.h"

namespace holdfast {

class Mode {
 public:
  enum class Kind : std::uint8_t { kExclusive, kShared, kPermits };

  // No other holder.
  static constexpr Mode exclusive() { return Mode(Kind::kExclusive, 1, 1); }
  // Any number of shared holders, no exclusive one.
  static constexpr Mode shared() { return Mode(Kind::kShared, 1, 1); }
  // `n` of `capacity` permits. All users of a name must name the same capacity: another one is
  // refused with kInvalidArgument while the lock is in use.
  static constexpr Mode permits(std::uint32_t n, std::uint32_t capacity) {
    return Mode(Kind::kPermits, n, capacity);
  }

  constexpr Kind kind() const { return kind_; }
  constexpr std::uint32_t count() const { return count_; }        // kPermits only.
  constexpr std::uint32_t capacity() const { return capacity_; }  // kPermits only.

  // "exclusive", "shared", or "2 of 5 permits".
  HOLDFAST_EXPORT std::string to_string() const;

  friend constexpr bool operator==(const Mode&, const Mode&) = default;

  // As to_string() has it.
  HOLDFAST_EXPORT friend std::ostream& operator<<(std::ostream& out, const Mode& mode);

 private:
  constexpr Mode(Kind kind, std::uint32_t count, std::uint32_t capacity)
      : kind_(kind), count_(count), capacity_(capacity) {}

  Kind kind_;
  std::uint32_t count_;
  std::uint32_t capacity_;
};

}  // namespace holdfast
