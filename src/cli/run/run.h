// Runs a command under a lock: what `run` and `elect` have in common.
#pragma once

#include <optional>
#include <string>

#include "src/cli/options/options.h"

namespace holdfast::cli {

// For `elect`.
struct Candidacy {
  std::optional<std::string> value{};  // Its proclamation; not set: no election, a lock.
  bool again = false;                  // Campaigns again after a loss.
};

// `command`: what the user called, for messages. Returns the exit status; all is told on stderr.
int run_under_lock(const std::string& command, RunOptions options, Candidacy candidacy);

}  // namespace holdfast::cli
