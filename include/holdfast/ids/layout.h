// How the bits of a snowflake id are shared between time, worker and sequence.
//
// Guarantee: compose() and decode() are inverse on every id of the layout; a value that does not
// fit is an error, and never runs into a neighbour's bits.
// Not guaranteed: that an id was made with this layout. No bit tells that, so decode() of another
// layout's id gives a time that never was.
//
// Thread-safety: immutable once made. Time: Unix time in milliseconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/ids/id.h"
#include "holdfast/result.h"

namespace holdfast::ids {

// A worker's number may be in several parts, such as datacenter and machine: every field whose name
// is neither "time" nor "sequence" is one. The number is the parts' bits, one after the other.
struct LayoutField {
  std::string name{};
  int bits = 0;

  friend bool operator==(const LayoutField&, const LayoutField&) = default;
};

struct LayoutSpec {
  std::vector<LayoutField> fields{};  // From the highest bit on.
  std::chrono::milliseconds unit{1};  // The time counts in it.
  std::chrono::milliseconds epoch{};  // The time's zero, since 1970.

  friend bool operator==(const LayoutSpec&, const LayoutSpec&) = default;
};

// The parts of an id. The time is logical: a generator may run ahead of the wall clock, by as much
// as its policy allows.
struct Decoded {
  std::uint64_t time = 0;  // In units after the epoch.
  std::uint64_t worker = 0;
  std::uint64_t sequence = 0;
  std::chrono::milliseconds unix_time{};  // When the unit began.
};

class HOLDFAST_EXPORT Layout {
 public:
  // Errors: kInvalidArgument, for fields that do not make an id of at most 63 bits, with at most 32
  // for the worker and 32 for the sequence; a field's name of other characters than ASCII letters,
  // digits, '-' and '_'; a unit of under 1 ms or over 10 s; an epoch before 1970.
  static Result<Layout> make(LayoutSpec spec);

  // A preset's name, or fields: "time:41 worker:10 sequence:12", with "unit:10ms" and
  // "epoch:2026-01-01" (or milliseconds since 1970) where they differ from 1 ms and the presets'
  // own epoch.
  // Errors: kInvalidArgument.
  static Result<Layout> parse(std::string_view text);

  // twitter: 41 time, 5 datacenter, 5 machine, 12 sequence; epoch of 2010-11-04.
  // twitter-machine-first: the same with the machine above the datacenter.
  // leaf: 41 time, 10 worker, 12 sequence; the same epoch.
  // uidgenerator: 28 time in seconds, 22 worker, 13 sequence. Lasts 8.5 years from 2026 on.
  // sonyflake: 39 time in 10 ms, 8 sequence, 16 worker; epoch of 2025-01-01.
  // javascript: 53 bits, which a JavaScript number holds: 41 time, 4 worker, 8 sequence; from 2026.
  static const std::vector<std::string>& presets();

  const LayoutSpec& spec() const { return spec_; }
  // A text that parse() reads.
  std::string to_string() const;

  int time_bits() const { return time_.bits; }
  int worker_bits() const { return worker_bits_; }
  int sequence_bits() const { return sequence_.bits; }

  // Worker numbers are 0 to workers() - 1.
  std::uint64_t workers() const { return std::uint64_t{1} << worker_bits_; }
  // The most that one worker can give without borrowing from the future.
  double ids_per_second() const;
  // From the epoch to the last unit's end, and that end since 1970.
  std::chrono::milliseconds lifetime() const;
  std::chrono::milliseconds end() const { return spec_.epoch + lifetime(); }
  // The last unit that a generator enters: that of the time's bits, or the one of 2262 in which the
  // nanoseconds since 1970 have more than 63 bits.
  std::int64_t last_unit() const;
  // A later id of one worker is greater: the time stands above the sequence.
  bool ordered() const { return time_.shift > sequence_.shift || sequence_.bits == 0; }
  // So is one of another worker: the time stands above all else.
  bool ordered_over_workers() const { return time_.shift + time_.bits == bits_; }

  // The unit of time in which this wall clock time lies; below the epoch: negative.
  std::int64_t unit_of(std::chrono::nanoseconds unix_time) const;

  // Errors: kInvalidArgument, for a part that has more bits than its field.
  Result<Id> compose(std::uint64_t time, std::uint64_t worker, std::uint64_t sequence) const;
  // Without the check, for a generator that keeps the bounds.
  std::uint64_t pack(std::uint64_t time, std::uint64_t worker_mask, std::uint64_t sequence) const {
    return time << time_.shift | worker_mask | sequence << sequence_.shift;
  }
  // The worker's bits at their place.
  std::uint64_t place_worker(std::uint64_t worker) const;
  // Errors: kInvalidArgument, for an id that has more bits than the layout, or is no number.
  Result<Decoded> decode(const Id& id) const;
  // The value of one field, by its name; nullopt: there is none.
  std::optional<std::uint64_t> field(const Id& id, std::string_view name) const;

  friend bool operator==(const Layout& a, const Layout& b) { return a.spec_ == b.spec_; }

 private:
  struct Bits {
    int shift = 0;
    int bits = 0;
  };

  explicit Layout(LayoutSpec spec);

  LayoutSpec spec_;
  Bits time_;
  Bits sequence_;
  std::vector<Bits> worker_;  // From the worker's highest bit on.
  int worker_bits_ = 0;
  int bits_ = 0;
};

}  // namespace holdfast::ids
