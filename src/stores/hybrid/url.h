// hybrid:?filter=URL&arbiter=URL
//
// Thread-safety: pure functions. Errors: kInvalidArgument.
#pragma once

#include <chrono>

#include "holdfast/result.h"
#include "src/port/store_url.h"
#include "src/port/url_options.h"

namespace holdfast::stores::hybrid {

inline constexpr port::UrlOption kUrlOptions[] = {
    port::time_option("patience", "10s",
                      "how long a waiter trusts the filter before it asks the arbiter, give or "
                      "take a quarter",
                      std::chrono::milliseconds(0)),
    port::time_option("recheck", "1s",
                      "how long the arbiter's \"busy\" may answer further tries, give or take a "
                      "quarter",
                      std::chrono::milliseconds(0)),
    port::time_option("filter_timeout", "250ms", "how long one request to the filter may take"),
    port::time_option("filter_lease", "5s", "the lease of a place at the filter",
                      std::chrono::milliseconds(100)),
};

struct HybridAddress {
  port::StoreUrl filter;
  port::StoreUrl arbiter;
  std::chrono::milliseconds patience{};
  std::chrono::milliseconds recheck{};
  std::chrono::milliseconds filter_timeout{};
  std::chrono::milliseconds filter_lease{};
};

Result<HybridAddress> parse_hybrid_url(port::StoreUrl url);

}  // namespace holdfast::stores::hybrid
