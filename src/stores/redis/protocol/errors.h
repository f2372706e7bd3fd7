// The meaning of a server's refusal for the caller: one table for all Redis stores.
//
// Guarantee: kUnavailable only for answers that the server gives before it runs any part of the
// command; if the command may have written, kOutcomeUnknown.
// Not guaranteed: that NOSCRIPT reaches this table: the caller sends EVAL instead.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/errc.h"
#include "src/stores/redis/protocol/reply.h"

namespace holdfast::stores::redis {

// `what` begins the message: store and request ("redis://h:6379/0: acquire 'x'"). `reads_only`: the
// command writes nothing, so the error is never kOutcomeUnknown.
Error to_error(const Reply& error_reply, std::string_view what, bool reads_only = false);

// Whether the server has become a replica. Its name may lead to another server by now.
inline bool is_demotion(const Reply& reply) { return reply.error_word() == "READONLY"; }

// Whether another request may help: the server says who serves the slot, or that it moves. Nothing
// was done.
bool is_redirection(std::string_view text);

// "ASKING", to be written before a request that ASK has redirected.
std::string asking();

}  // namespace holdfast::stores::redis
