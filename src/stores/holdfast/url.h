// The addresses of Holdfast's lock service, read from a store URL.
//
//   holdfast://host[:port][,host[:port]...]     port 7420; `holdfast://` alone means 127.0.0.1
//
// Several are servers on one journal, of which one leads.
//
// Thread-safety: pure functions. Errors: kInvalidArgument, with what was expected.
#pragma once

#include "holdfast/result.h"
#include "src/port/store_url.h"
#include "src/port/url_options.h"
#include "src/stores/redis/url.h"

namespace holdfast::stores::holdfast {

inline constexpr port::UrlOption kUrlOptions[] = {
    port::time_option("connect_timeout", "3s", "for one address"),
};

// Takes its parts out of `url`. Other options stay there.
Result<redis::RedisAddress> parse_url(port::StoreUrl& url);

}  // namespace holdfast::stores::holdfast
