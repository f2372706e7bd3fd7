// An act or observation of a process of the lab at one instant: one flat record for every kind.
//
// All stamps are nanoseconds of boot time without the offset of a time namespace
// (base::host_boot_now), so all processes of a kernel share one axis. A call is two events: one
// stamped before its first step, one after its last. Both have the same call number, unique within
// the process, and the return repeats the facts of the invocation. The call took effect between the
// two.
//
// Guarantee: trivially copyable and without pointers, so that it can be in a shared region.
// Not guaranteed: that stamps order events of two processes that are less than a call apart.
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
  kHeld,         // invoke: id. return: held or lost. Any guarded call counts.
  kWrite,        // To the guarded resource. invoke: id, token, mode. return: accepted or refused,
                 // the highest exclusive token the resource had seen, its own sequence number.
  kLost,         // The owner was notified that `id` is lost.
  kIncarnation,  // The store lost its memory: from `invoke` (the old one may still answer) to
                 // `return` (only the new one does).
  kFault,        // begin and end of a fault at a target.
  kDeath,        // `process` is to be killed: stamped before the signal is sent. If it died by
                 // itself, this is the stamp of its last event.
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
  kRestart,  // A restart with its memory.
  kHold,     // Some requests arrived very late.
  kStall,    // The host itself stood still.
  kIsolate,  // A server heard nothing of the others, but clients reached all of them.
  kMove,     // Some locks moved from one server to another.
};

// The 128 bits of an acquisition; all zero for none.
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
  std::uint32_t count = 1;     // Requested permits.
  std::uint32_t capacity = 1;  // Permits in all.
  Id id{};
  Token token{};  // Zero if the store gives none.
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

// The value of a word; nullopt if there is no such word.
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
