// The figures of a run for Prometheus: a file for the textfile collector of node_exporter.
//
// Guarantee: whoever reads the file reads that of one run, never half of one.
// Not guaranteed: that it tells of a run that was killed, or whose options could not be read.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "holdfast/mode.h"
#include "holdfast/result.h"
#include "holdfast/token.h"
#include "src/cli/process/boottime.h"

namespace holdfast::cli {

enum class RunOutcome { kSuccess, kFailed, kMaxHold, kLost, kTimeout, kCancelled, kError };

struct RunFigures {
  std::string lock;
  std::string command;
  std::string store;  // The scheme of its URL.
  Mode mode = Mode::exclusive();
  RunOutcome outcome = RunOutcome::kError;
  int exit_status = 0;
  Nanos wait{};
  std::optional<Nanos> hold;   // Not set: it was not had.
  std::optional<Token> token;  // The same.
};

// Replaces `file`, in which the time of the last success stays. Errors: kUnavailable.
Result<void> write_textfile(const std::string& file, const RunFigures& figures);

}  // namespace holdfast::cli
