// The meanings of the program's exit status; `run` lets 122 to 125 be remapped.
#pragma once

namespace holdfast::cli {

inline constexpr int kExitUnhealthy = 1;     // doctor: a problem, or a missing guarantee;
                                             // ls: locks are missing from the list.
inline constexpr int kExitFree = 1;          // status: nobody holds the lock.
inline constexpr int kExitMaxHold = 122;     // --max-hold was over, and the command was ended.
inline constexpr int kExitLost = 123;        // The lock was lost; fence: its token is an old one.
inline constexpr int kExitTimeout = 124;     // The lock was not acquired in time.
inline constexpr int kExitError = 125;       // Holdfast's own failure.
inline constexpr int kExitCannotRun = 126;   // The command was found but could not be run.
inline constexpr int kExitNotFound = 127;    // The command was not found.
inline constexpr int kExitSignalBase = 128;  // 128 + n: ended by signal n.

}  // namespace holdfast::cli
