// The calls of operators that any server answers, whether it leads or stands by: "HF1 members 0",
// "HF1 examine 0" and "HF1 drain 0". Every user may have the journal examined. "HF1 step_down 0" is
// answered while it leads, and always where there are several shards.
//
// The reply to `examine` is an array with four texts for each finding: its severity (0: fine, 1: a
// warning, 2: a problem), topic, what was found, and advice.
// The reply to `members` is an array with one array for each server: names and values in turn. The
// instant `since` is in ms since 1970, and 0 where it is not known.
//
// Thread-safety: the loop's thread.
#pragma once

#include "src/server/front/commands.h"
#include "src/server/front/connection.h"

namespace holdfast::server {

// False: it is another call.
bool run_operator_call(CommandContext& context, Connection& connection, const Words& words);

}  // namespace holdfast::server
