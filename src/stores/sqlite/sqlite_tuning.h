// Settings for tests and benchmarks alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "src/machine/types.h"

namespace holdfast::stores {

struct SqliteTuning {
  std::function<machine::Instant()> now{};  // Instead of the host's boot time.
  std::string boot_id{};                    // Instead of the kernel's.
  std::string vfs{};                        // SQLite's VFS by name.
  bool fast_path = true;                    // false: everything goes through the machine.
  std::size_t reach = 4;  // Waiters of a queue that are loaded at first (lock_rows.h).
  // Tokens reserved with one synced commit.
  std::uint64_t token_block = 1U << 20;
  // How long others may keep a file of another boot, name or log before that is kStoreInUse.
  std::chrono::milliseconds patience{2000};
  std::size_t ended_kept = 4096;  // Ids of released acquisitions that stay refused.
  // For how long a lock that nobody uses is remembered, and what stands beside it.
  std::chrono::microseconds idle_kept = std::chrono::hours(24 * 7);
  std::size_t queue_limit = 65'536;  // Requests that may wait for the store's thread.
};

}  // namespace holdfast::stores
