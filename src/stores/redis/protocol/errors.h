// The meaning of a server's refusal for the caller: one table for all Redis stores.
//
// Guarantee: kUnavailable only for answers that the server gives before it runs anything of the
// command; whatever may have written is kOutcomeUnknown.
// Not guaranteed: that NOSCRIPT is an error at all: send EVAL then.
// Thread-safety: pure functions.
#pragma once

#include <string_view>

#include "holdfast/errc.h"
#include "src/stores/redis/protocol/reply.h"

namespace holdfast::stores::redis {

// `what`: what was asked of which store, as the message begins ("redis://h:6379/0: acquire 'x'").
// `reads_only`: the command writes nothing; never kOutcomeUnknown then.
Error to_error(const Reply& error_reply, std::string_view what, bool reads_only = false);

// Whether the server says that it has become a replica: its name may lead to another one by now.
inline bool is_demotion(const Reply& reply) { return reply.error_word() == "READONLY"; }

}  // namespace holdfast::stores::redis
