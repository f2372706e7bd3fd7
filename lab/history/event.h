// An act or observation of a process of the lab at one instant: one flat record for every kind.
//
// All stamps are nanoseconds of boot time without the offset of a time namespace
// (base::host_boot_now): one axis for all processes of a kernel. A call is two events, stamped
// before its first step and after its last, with one call number between them, unique within the
// process; the return repeats what the invocation says. What took effect did so between the two.
//
// Guarantee: trivially copyable, no pointers: as it is in memory, so it stands in a shared region.
// Not guaranteed: that stamps of two processes order what happened less than a call apart.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "holdfast/mode.h"
#include "holdfast/token.h"

namespace holdfast::lab {

// The first five are calls, the others single marks.
enum class Kind : std::uint8_t {
  kAcquire,      // invoke: lock, mode, ttl, wait (0: a try). return: outcome; granted: id,
                 // token, deadline. A re-entry names the id that is held already.
  kRenew,        // invoke: id, ttl. return: renewed with the new deadline, lost, ...
  kRelease,      // invoke: id. return: released, lost (it was not held any more), ...
  kHeld,         // invoke: id. return: held or lost. Any guarded call counts as one.
  kWrite,        // To the guarded resource. invoke: id, token, mode. return: accepted or refused,
                 // the highest exclusive token the resource had seen, its own sequence number.
  kLost,         // The owner was notified that `id` is lost.
  kIncarnation,  // The store lost its memory: from `invoke` (the old one may still answer) to
                 // `return` (only the new one does).
  kFault,        // begin and end of a fault at a target.
  kDeath,        // `process` is to be killed: stamped before the signal is sent. Of one that died
                 // by itself: the stamp of its last event.
};

enum class Phase : std::uint8_t { kMark, kInvoke, kReturn };

enum class Outcome : std::uint8_t {
  kNone,
  kGranted,
  kBusy,         // Not granted, nothing queued.
  kTimedOut,     // The wait ended: nothing held, nothing queued.
  kCancelled,    // The same.
  kUnavailable,  // Surely not applied, or taken back.
  kUnknown,      // Maybe applied.
  kRenewed,
  kReleased,
  kHeld,
  kLost,
  kAccepted,
  kRefused,
};

enum class FaultKind : std::uint8_t {
  kNone,
  kKill,
  kPause,
  kPartition,
  kLoss,
  kDelay,
  kDuplicate,
  kReorder,
  kDropReplies,
  kSplit,
  kReset,
  kBlackhole,
  kFailover,
  kRestartEmpty,
  kClockJump,  // The store's clock was set: leases of before may end at any time.
  kDiskFull,
  kStarve,
  kRestart,  // With what it knew.
  kHold,     // Some requests came very late.
  kStall,    // The host itself stood still.
  kIsolate,  // A server heard nothing of the others, which clients still reached, as they did it.
};

// The 128 bits of an acquisition. All zero: none.
struct Id {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  explicit operator bool() const { return (high | low) != 0; }
  friend auto operator<=>(const Id&, const Id&) = default;
};

using ModeKind = Mode::Kind;

struct Event {
  std::int64_t at_ns = 0;
  std::uint32_t process = 0;  // Number of the process in its run, never used twice.
  std::uint32_t owner = 0;    // Number of the owner in its process.
  std::uint64_t call = 0;
  Kind kind = Kind::kAcquire;
  Phase phase = Phase::kMark;
  Outcome outcome = Outcome::kNone;
  ModeKind mode = ModeKind::kExclusive;
  FaultKind fault = FaultKind::kNone;
  std::uint32_t lock = 0;      // Index into History::locks.
  std::uint32_t target = 0;    // Index into History::targets.
  std::uint32_t count = 1;     // Permits asked for ...
  std::uint32_t capacity = 1;  // ... of so many.
  Id id{};
  Token token{};  // Zero: the store gives none.
  Token seen{};
  std::int64_t ttl_ns = 0;
  std::int64_t wait_ns = 0;
  std::int64_t deadline_ns = 0;
  std::uint64_t sequence = 0;

  friend bool operator==(const Event&, const Event&) = default;
};
static_assert(std::is_trivially_copyable_v<Event>);

constexpr bool is_call(Kind kind) { return kind <= Kind::kWrite; }

// The words of the text form.
std::string_view name_of(Kind kind);
std::string_view name_of(Phase phase);
std::string_view name_of(Outcome outcome);
std::string_view name_of(FaultKind fault);
std::string_view name_of(ModeKind mode);

// The value that a word stands for; nullopt: no such word.
template <typename Enum>
std::optional<Enum> named(std::string_view word) {
  for (int i = 0; i < 256; ++i) {
    const auto value = static_cast<Enum>(i);
    if (name_of(value).empty()) return std::nullopt;
    if (name_of(value) == word) return value;
  }
  return std::nullopt;
}

}  // namespace holdfast::lab
