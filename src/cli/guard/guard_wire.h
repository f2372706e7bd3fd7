// The messages between the program and its guard process, over a socket pair that keeps message
// bounds. Both ends are the same binary, forked: no version, no byte order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/cli/process/boottime.h"

namespace holdfast::cli {

enum class GuardWord : std::uint32_t {
  // To the guard.
  kTerms = 1,  // text: the bytes of GuardTerms; ahead of kLaunch
  kLaunch,     // instant: deadline; text: "NAME=VALUE\0..." for the command's environment
  kGo,         // the command may start now (its group is in front)
  kExtend,     // instant: the new deadline
  kSignal,     // number: to pass on
  kContinue,   // the command, stopped for the want of the terminal, has it now
  kLost,       // the lock is lost, or was held for long enough: end the tree
  // From the keeper.
  kCannotStart,  // number: errno
  // From the guard.
  kSpawned,  // number: the command's process and group, which waits for kGo; instant: the guard
  kStarted,
  kCannotRun,  // number: errno
  kStopped,    // number: signal
  kContinued,
  kExited,    // number: the status as wait() tells it
  kLeftover,  // number: processes that outlived the command
  kLeft,      // number: as before; they are left alone, the guard ends
  kEnding,    // number: an EndReason
  kRefused,   // number: a process that may not be killed
  kTreeEmpty,
  kGone,  // never sent: the other end has died
};

enum class EndReason : std::int32_t { kLost = 1, kLeaseRanOut, kOwnerDied, kLeftover, kKeeperDied };

// The times of the command's end. They depend on the lease, which is known once the store is.
struct GuardTerms {
  Nanos kill_after{};
  Nanos reserve{};
  Nanos most_effort{};  // The most that a large tree or a busy machine may add to the reserve.
};

struct GuardMessage {
  GuardWord word{};
  std::int32_t number = 0;
  std::int64_t instant = 0;  // Nanoseconds of CLOCK_BOOTTIME.
  std::string text;
};

// Never blocks. false: not sent; errno is EAGAIN if the other end does not read at present.
bool send_message(int fd, const GuardMessage& message);

// The next message if one has come; kGone when the other end has closed.
std::optional<GuardMessage> receive_message(int fd);

}  // namespace holdfast::cli
