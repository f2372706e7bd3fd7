// Translates Consul's refusals to errors of the port.
//
// Guarantee: kUnavailable only where the request was surely not carried out and will not be; a
// message names what was asked, the advice and Consul's words, and no token.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/result.h"
#include "src/stores/consul/transport/http.h"

namespace holdfast::stores::consul {

// The error of an answer that is no success. `reads`: the request changes nothing.
Error to_error(const HttpReply& reply, std::string_view what, bool reads);

// Whether these words, in whatever answer, mean that the token may not do it.
bool is_refusal(std::string_view words);

}  // namespace holdfast::stores::consul
