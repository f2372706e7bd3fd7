// Ids of 63 bits that grow with time: time, worker, sequence.
//
// Guarantee: one object never gives an id twice, on any number of threads, whatever the wall clock
// does, as long as its policy lets it give any. Ids grow in the order of the calls where the layout
// is ordered() and the policy goes forward (ClockPolicy::logical(), refuse(), wait()).
// Not guaranteed: that two objects with one worker number differ. A leased worker guarantees that
// (WorkerPermit); a number from a configuration file only does when nobody copies the file, and a
// new object starts only above the time that `start_above` names.
//
// Thread-safety: all calls, from any thread; no lock and no system call but the clock's, unless the
// sequence of a unit is used up or the clock went back.
// fork(): the child's calls answer kClosed.
// Source: the layout and the idea are Twitter's Snowflake of 2010; reserving time ahead, the
// logical clock and the marks of each round are our own (docs/design/0061-ids.md).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/ids/id.h"
#include "holdfast/ids/layout.h"
#include "holdfast/result.h"

namespace holdfast::ids {

// The answer to a wall clock that stands before the last id's time, and to a unit whose sequence is
// used up.
struct ClockPolicy {
  enum class Back : std::uint8_t {
    kLogical,  // Time goes on from the last one, at the pace of boot time. The default.
    kRefuse,   // An error until the wall clock has caught up.
    kWait,     // Waits for the wall clock, `back_at_most` at most; else an error.
    kRounds,   // Follows the wall clock back, with another part of the sequence.
  };
  Back back = Back::kLogical;
  std::chrono::milliseconds back_at_most{};

  // kRounds: how many parts the sequence has, and what a part holds. Once all are used at a time,
  // an error. A set back of up to `back_at_most` is waited for instead.
  std::uint32_t rounds = 0;
  std::uint32_t round_size = 0;

  // A full unit: waits for the next one (0), or goes so far ahead of the clock. Not with kRounds.
  std::chrono::milliseconds borrow_at_most{};

  // A wall clock that jumps forward by more is not believed: an error, until it is set right or the
  // object is made anew.
  std::chrono::milliseconds forward_at_most{60'000};

  HOLDFAST_EXPORT static ClockPolicy logical();
  HOLDFAST_EXPORT static ClockPolicy refuse();
  HOLDFAST_EXPORT static ClockPolicy wait(std::chrono::milliseconds at_most);
  // The sequence in parts of `step`: 4,096 values and a step of 1,024 make four rounds.
  HOLDFAST_EXPORT static ClockPolicy step_sequence(std::uint32_t step);
  // The sequence's upper `bits` count the times that the clock went back by more than `small`.
  HOLDFAST_EXPORT static ClockPolicy extension_bits(int bits, std::chrono::milliseconds small);
  // This policy, and a full unit borrows.
  HOLDFAST_EXPORT ClockPolicy borrow(std::chrono::milliseconds at_most) const;

  // How far an id's time may be ahead of the wall clock at the moment that gave it: what may be
  // borrowed, in whole units of the layout. nullopt: with kLogical also as far as the wall clock
  // was set back, which nothing bounds; Snowflake::ahead() tells of one generator.
  HOLDFAST_EXPORT std::optional<std::chrono::milliseconds> ahead_at_most(
      const Layout& layout) const;

  // "logical", "refuse", "wait:5ms", "step:1024", "extension:2:5ms"; after a space "borrow:10ms",
  // and "forward:60000ms".
  // Errors: kInvalidArgument.
  HOLDFAST_EXPORT static Result<ClockPolicy> parse(std::string_view text);
  // A text that parse() reads.
  HOLDFAST_EXPORT std::string to_string() const;

  friend bool operator==(const ClockPolicy&, const ClockPolicy&) = default;
};

// Up to which time each round of a sequence is used, and which one is in use. In units of the
// layout; -1: not at all.
struct Rounds {
  std::uint32_t current = 0;
  std::vector<std::int64_t> used_up_to{};
};

// The bounds of a worker, kept by whoever holds its number. The generator reads both in each tick
// of its clock (10 ms at most), and the reserved time before each unit that it enters.
//
// Thread-safety: the bounds are atomic; the calls may come from any thread, one at a time. A forked
// child never destroys it.
class HOLDFAST_EXPORT WorkerPermit {
 public:
  virtual ~WorkerPermit() = default;

  // Ids have times below this unit. Raised only after the bound is durable, never lowered.
  std::atomic<std::int64_t> reserved_until{std::numeric_limits<std::int64_t>::max()};
  // On CLOCK_BOOTTIME. No id is given from 10 ms before it on, the longest tick.
  std::atomic<std::int64_t> deadline_ns{std::numeric_limits<std::int64_t>::max()};

  // The time that the generator has come to, for whoever reserves ahead. In units of the layout.
  std::atomic<std::int64_t> come_to{-1};

  // Why a bound was reached: the error that next() gives. May also wait for more: a success makes
  // the generator look again.
  virtual Result<void> ended(std::int64_t unit) = 0;
  // Makes the marks durable: no id of the new round is given before.
  virtual Result<void> keep_rounds(const Rounds& rounds) = 0;
  // The generator has ended, and its last id had this time.
  virtual void close(std::int64_t last_unit) { static_cast<void>(last_unit); }
  virtual IdGuarantees guarantees() const = 0;
};

// The clocks that a generator reads. Tests put others in their place.
class HOLDFAST_EXPORT IdClock {
 public:
  struct Reading {
    std::chrono::nanoseconds wall{};  // Since 1970.
    std::chrono::nanoseconds boot{};
  };

  virtual ~IdClock() = default;
  virtual Reading read() = 0;
  // A value that stays the same for a few milliseconds at most, and costs less than read(). Within
  // that time a generator goes on with what it read last.
  virtual std::int64_t tick() = 0;
  // The machine's. Not a time: seconds beside nanoseconds, which costs less than to add them up.
  static std::int64_t machine_tick() {
    timespec now{};
    read_clock.load(std::memory_order_relaxed)(CLOCK_REALTIME_COARSE, &now);
    return now.tv_sec << 30 | now.tv_nsec;
  }
  virtual void sleep(std::chrono::nanoseconds time) = 0;

  // The machine's own.
  static IdClock& machine();

 private:
  // clock_gettime() of the kernel's own page where the process has one (vdso(7)): the way there
  // through libc costs a quarter of a look. Else libc's.
  static std::atomic<int (*)(clockid_t, timespec*)> read_clock;
};

struct SnowflakeOptions {
  Layout layout;
  std::uint64_t worker = 0;
  ClockPolicy policy{};
  // The first id has a later time than this unit. An object that comes after another one with the
  // same worker names the last time of that.
  std::int64_t start_above = -1;
  std::optional<Rounds> rounds{};  // With a policy of rounds: what earlier objects used.
  std::shared_ptr<WorkerPermit> permit{};
  IdClock* clock = nullptr;  // nullptr: the machine's. It must outlive the generator.
};

class HOLDFAST_EXPORT Snowflake final : public IdSource {
 public:
  // Errors: kInvalidArgument: a worker outside the layout, or a policy that does not fit its
  // sequence or itself.
  static Result<std::unique_ptr<Snowflake>> make(SnowflakeOptions options);
  ~Snowflake() override;
  Snowflake(const Snowflake&) = delete;
  Snowflake& operator=(const Snowflake&) = delete;

  // Errors: kUnavailable: the clock went back or forward by more than the policy allows, or the
  // reserved time is used up while the store is away. kLost: the worker's lease ended.
  // kUnsupported: the layout's lifetime is over. kClosed: a forked child.
  Result<Id> next() override;
  // Fills as much as it can and says how much: less than the whole only when an error came behind
  // the first id. Errors: as next(), when there is not one id.
  Result<std::size_t> next_batch(std::span<std::uint64_t> into);

  IdGuarantees guarantees() const override;
  const Layout& layout() const;
  std::uint64_t worker() const;
  // The time of the last id, in units; start_above before the first one.
  std::int64_t last_unit() const;
  // How far the last id's time is ahead of the wall clock; 0: not at all.
  std::chrono::milliseconds ahead() const;

 private:
  friend class SnowflakeBlock;
  struct Impl;
  explicit Snowflake(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// A thread's own supply from a shared generator: several times as fast, and its ids grow for this
// thread only.
//
// Guarantee: as the generator's, but for the order. Ids of a supply that lies unused for longer
// than a few milliseconds are thrown away, so times stay near the clock and no bound is overrun.
// Thread-safety: one thread at a time. Ownership: the generator must outlive it.
class HOLDFAST_EXPORT SnowflakeBlock final : public IdSource {
 public:
  // `size`: as many as it takes at once; 0 counts as 1.
  explicit SnowflakeBlock(Snowflake& from, std::uint32_t size = 256);

  // Inline: a call and its Result in memory take a third of the time.
  Result<Id> next() override {
    if (next_ == last_ || tick() != tick_ ||
        process_->load(std::memory_order_relaxed) != born_in_) {
      return refill();
    }
    next_ += step_;
    return Id::of(next_);
  }
  IdGuarantees guarantees() const override;

 private:
  std::int64_t tick() const { return clock_ ? clock_->tick() : IdClock::machine_tick(); }
  Result<Id> refill();

  Snowflake& from_;
  IdClock* const clock_;
  const std::atomic<std::uint64_t>* const process_;  // Zero in a forked child.
  const std::uint64_t born_in_;
  const std::uint32_t size_;
  std::uint64_t next_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t step_ = 0;
  std::int64_t tick_ = 0;
};

}  // namespace holdfast::ids
