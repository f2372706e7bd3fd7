// The calls of operators that any server answers, whether it leads or stands by: "HF1 members 0"
// and "HF1 drain 0".
//
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
