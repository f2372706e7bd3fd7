// A history, sorted into calls with both ends, acquisitions, tries, writes and marks.
//
// Guarantee: every call of the history is in exactly one place, its return matched to its
// invocation; contradictory events become a malformed() entry, and are left out.
// Not guaranteed: any judgement. Complexity: O(n log n) for n events.
// Ownership: refers to the history, which must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "lab/checker/violation.h"
#include "lab/history/history.h"

namespace holdfast::lab {

inline constexpr std::size_t kNoEvent = std::numeric_limits<std::size_t>::max();
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// An owner as one comparable number.
constexpr std::uint64_t owner_of(const Event& event) {
  return std::uint64_t{event.process} << 32 | event.owner;
}

// The ends of a call, as indices and as instants.
struct Call {
  std::size_t invoke = kNoEvent;
  std::size_t ret = kNoEvent;  // None if it never returned.
  std::int64_t invoked = 0;
  std::int64_t returned = kNever;
};

// A call that made or extended a lease.
struct Extension {
  Call call;
  std::int64_t deadline = 0;
  std::int64_t ttl = 0;
};

// One lease of one owner, from its first grant on, including re-entries.
struct Acquisition {
  Id id{};
  std::uint32_t lock = 0;
  std::uint64_t owner = 0;
  ModeKind mode = ModeKind::kExclusive;
  std::uint32_t count = 1;
  std::uint32_t capacity = 1;
  Token token{};
  Call acquire{};
  std::vector<Extension> extensions{};  // The acquire first; the answered ones only.
  Call release{};                       // The release of the last hold.
  std::int64_t released = kNever;       // Invocation of that release.
  bool release_confirmed = false;       // It answered `released`.
  std::int64_t told_lost = kNever;      // When a call or a notification told the owner so.
  std::int64_t died = kNever;
  std::uint32_t holds = 1;  // Entries minus releases.
};

// An acquire that was not granted as far as its caller knows.
struct Attempt {
  Call call;
  std::uint32_t lock = 0;
  Outcome outcome = Outcome::kNone;  // kNone if it never returned.
  std::int64_t died = kNever;
};

// A held() question or a write, with its acquisition (index, or kNoEvent: unknown id).
struct Use {
  Call call;
  std::size_t acquisition = kNoEvent;
};

struct Ledger {
  const History* history = nullptr;
  std::vector<Acquisition> acquisitions;
  std::vector<std::vector<std::uint32_t>> by_lock;  // Indices, in the order of the returns.
  std::vector<Attempt> attempts;
  std::vector<Use> held;           // Answered `held`, including re-entries and renewals.
  std::vector<Use> writes;         // Accepted.
  std::vector<Call> refused;       // Writes.
  std::vector<Call> open_writes;   // Never returned, so perhaps accepted.
  std::vector<Call> incarnations;  // In the order of time.
  std::vector<std::int64_t> clock_jumps;
  std::vector<Call> faults;         // By their beginnings. One that never ended has no return.
  std::vector<Violation> problems;  // kMalformed, and cases of V0 that a single answer shows.

  const Event& event(std::size_t index) const { return history->events[index]; }
};

Ledger take_apart(const History& history);

// "owner 3/1", "0.17", "lock 'orders/42'", "12.345 ms" (since the first event).
std::string owner_text(std::uint64_t owner);
std::string token_text(Token token);
std::string lock_text(const History& history, std::uint32_t lock);
std::string time_text(const History& history, std::int64_t at);
std::string span_text(std::int64_t ns);

}  // namespace holdfast::lab
