// UUIDs of version 7 (RFC 9562) and ULIDs that grow within a process.
//
// Guarantee: the ids of one object grow in the order of the calls, also when the wall clock is set
// back, and when a millisecond's counter is used up: the time then goes one millisecond ahead, and
// stays there until the clock has caught up. After fork() the child draws random bits anew.
// Not guaranteed: uniqueness beyond chance. A UUIDv7 has 32 random bits behind a counter that
// begins at 41 random bits in each millisecond; a ULID has 80 random bits, counted up within a
// millisecond: the next one can be guessed, so neither is a secret.
//
// Thread-safety: all calls.
// Errors: none, until the 48 bits of milliseconds end in the year 10889 (kUnsupported).
// Source: RFC 9562, section 6.2, method 1 (a counter with random bits behind it), and the ULID
// specification of 2019, whose error on overflow is replaced by the step ahead.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "holdfast/export.h"
#include "holdfast/ids/id.h"
#include "holdfast/ids/snowflake.h"

namespace holdfast::ids {

// 64 random bits. Tests give their own.
using RandomBits = std::function<std::uint64_t()>;

class HOLDFAST_EXPORT UuidV7 final : public IdSource {
 public:
  explicit UuidV7(IdClock* clock = nullptr, RandomBits random = nullptr);
  ~UuidV7() override;

  Result<Id> next() override;
  IdGuarantees guarantees() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class HOLDFAST_EXPORT Ulid final : public IdSource {
 public:
  explicit Ulid(IdClock* clock = nullptr, RandomBits random = nullptr);
  ~Ulid() override;

  Result<Id> next() override;
  IdGuarantees guarantees() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The time in a UUIDv7 or a ULID, since 1970; nullopt: the id has none.
HOLDFAST_EXPORT std::optional<std::chrono::milliseconds> time_of(const Id& id);

}  // namespace holdfast::ids
