// The vocabulary of the lock machine: instants, ids, modes, tokens.
//
// Everything here is a plain value. The layer includes only the standard library, so that the
// same types serve the machine, the stores and the simulator.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>

namespace holdfast::machine {

// The machine's time axis. It has no now(): code in this layer can compare and add instants but
// cannot read a clock. The caller puts the instant in each command.
struct MachineClock {
  using rep = std::int64_t;
  using period = std::micro;
  using duration = std::chrono::microseconds;
  using time_point = std::chrono::time_point<MachineClock>;
};
using Instant = MachineClock::time_point;
using Duration = MachineClock::duration;

// 128 random bits that the client draws from the kernel for each acquisition. Everything a lock
// knows about a contender hangs on this id, never on a thread, a session or a client.
struct AcquisitionId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend auto operator<=>(const AcquisitionId&, const AcquisitionId&) = default;
  explicit operator bool() const { return (high | low) != 0; }  // All zero means "none".
};

// A fencing token. Strictly increasing per lock name from grant to grant; compared epoch first.
struct Token {
  std::uint32_t epoch = 0;
  std::uint64_t counter = 0;

  friend auto operator<=>(const Token&, const Token&) = default;
};

// The kind of a ticket. Exclusive and shared tickets may stand in one queue; permits may not
// stand beside them (a lock's kind is fixed while it has tickets).
enum class ModeKind : std::uint8_t { kExclusive = 0, kShared = 1, kPermits = 2 };

struct Mode {
  ModeKind kind = ModeKind::kExclusive;
  std::uint32_t permits = 1;   // kPermits: how many of `capacity` this ticket takes.
  std::uint32_t capacity = 1;  // kPermits: N, which all users of the name must agree on.

  static constexpr Mode exclusive() { return {}; }
  static constexpr Mode shared() { return {ModeKind::kShared, 1, 1}; }
  static constexpr Mode of_permits(std::uint32_t n, std::uint32_t capacity) {
    return {ModeKind::kPermits, n, capacity};
  }
  friend bool operator==(const Mode&, const Mode&) = default;
};

// The asking owner: shown to people, never compared. It is shared, because ten thousand tickets of
// one process have one owner.
struct OwnerInfo {
  std::string owner{};  // An id or name that the client chose for the owner object.
  std::string host{};
  std::int64_t pid = 0;
  std::string program{};
  std::string reason{};            // Free text from the user ("nightly billing").
  std::int64_t since_unix_ms = 0;  // Wall clock of the client at the request: for display only.
  std::string wake{};              // Where the store finds the waiter's process; empty if it polls.
  std::string trace_id{};          // Names the work that asks, in the user's tracing.
  Duration lock_delay{};           // The end of its leases, on which it does not count.

  friend bool operator==(const OwnerInfo&, const OwnerInfo&) = default;
};
using OwnerPtr = std::shared_ptr<const OwnerInfo>;

}  // namespace holdfast::machine
