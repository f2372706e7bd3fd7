// The plan of a run: its options with the configuration filled in, checked.
#pragma once

#include <chrono>

#include "holdfast/guarantees.h"
#include "holdfast/result.h"
#include "src/cli/exit_codes.h"
#include "src/cli/guard/guard.h"
#include "src/cli/options/options.h"
#include "src/cli/options/settings.h"
#include "src/cli/run/run.h"

namespace holdfast::cli {

struct ExitCodes {
  int max_hold = kExitMaxHold;
  int lost = kExitLost;
  int timeout = kExitTimeout;
  int error = kExitError;
};

struct RunPlan {
  RunOptions options;
  Candidacy candidacy;
  Settings settings;
  ExitCodes codes;
  Duration ttl{};
  Duration min_hold{};
  GuardPlan guard;
};

// After an error `plan.codes` hold what was read until then.
Result<void> make_plan(RunOptions options, RunPlan& plan);

// How the end of the command is timed where each renewal leaves at least `lease`.
struct Timing {
  Duration lease{};
  GuardTerms guard;
  Duration ending() const { return std::chrono::ceil<Duration>(guard.kill_after + guard.reserve); }
};

Result<Timing> timing_for(const RunPlan& plan, const Guarantees& promised);

}  // namespace holdfast::cli
