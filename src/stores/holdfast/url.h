// The addresses of Holdfast's lock service, read from a store URL.
//
//   holdfast://[user@]host[:port][,host[:port]...]   port 7420; `holdfast://` alone: 127.0.0.1
//   holdfasts://...                                  TLS
//
// Several are servers on one journal, of which one leads. Options: kUrlOptions, and those of
// src/port/url_parts.h. A password that the URL does not name is HOLDFAST_SERVICE_PASSWORD, if that
// is set and not empty.
//
// Guarantee: no message made from an address contains a user or a password.
// Thread-safety: pure functions, except for files, descriptors and the environment.
// Errors: kInvalidArgument, with what was expected; kPermissionDenied or kInvalidArgument when a
// password's file or descriptor cannot be read.
#pragma once

#include <cstdint>

#include "holdfast/result.h"
#include "src/port/store_url.h"
#include "src/port/url_options.h"
#include "src/stores/redis/url.h"

namespace holdfast::stores::holdfast {

inline constexpr std::uint16_t kPort = 7420;

inline constexpr port::UrlOption kUrlOptions[] = {
    port::time_option("connect_timeout", "3s", "for one address, TLS and log-in included"),
};

// Takes its parts out of `url`. Other options stay there.
Result<redis::RedisAddress> parse_url(port::StoreUrl& url);

}  // namespace holdfast::stores::holdfast
