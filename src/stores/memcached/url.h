// Where a memcached server is, as a store URL says it.
//
//   memcached://host[:port]                         port 11211
//
// One server only: a client that spreads locks over several ones, or goes on with another one,
// would take a lock that another client holds elsewhere.
//
// Thread-safety: values. Errors: kInvalidArgument, with what was expected.
#pragma once

#include <chrono>
#include <string>

#include "holdfast/result.h"
#include "src/port/store_url.h"
#include "src/port/url_parts.h"

namespace holdfast::stores::memcached {

inline constexpr port::UrlOption kUrlOptions[] = {
    port::time_option("connect_timeout", "2s", "for one address of the host; and for an answer"),
    port::time_option("poll", "100ms", "the longest pause of the next waiter between two looks",
                      std::chrono::milliseconds(5), std::chrono::milliseconds(1000)),
};

struct MemcachedAddress {
  port::Endpoint host;
  std::chrono::milliseconds connect_timeout{2000};
  std::chrono::milliseconds poll{100};

  std::string display() const { return "memcached://" + host.text(); }  // For messages.
};

// Takes from `url` what an address is made of; other options stay in it, for the caller to take or
// refuse.
Result<MemcachedAddress> parse_memcached_url(port::StoreUrl& url);

}  // namespace holdfast::stores::memcached
