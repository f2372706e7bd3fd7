// failover:?chain=URL&chain=URL: the last one keeps the record.
//
// Thread-safety: pure functions. Errors: kInvalidArgument.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/port/store_url.h"
#include "src/port/url_options.h"

namespace holdfast::stores::failover {

inline constexpr port::UrlOption kUrlOptions[] = {
    port::time_option("authority", "10s",
                      "the authority lease, and the shortest lease of a lock; holders are lost "
                      "within that time when the chain is switched",
                      std::chrono::milliseconds(1000), std::chrono::minutes(10)),
    port::time_option("patience", "10s", "how long a store is away before it is left"),
    port::time_option("settled", "60s", "the least time between two switches"),
    port::text_option("name",
                      "the chain's name, instead of its list of stores: for clients that reach the "
                      "same stores at other addresses"),
};

struct ChainAddress {
  std::vector<port::StoreUrl> chain;
  std::string identity;  // A hash of the name, or of the list without credentials and options.
  std::chrono::milliseconds authority{};
  std::chrono::milliseconds patience{};
  std::chrono::milliseconds settled{};
};

Result<ChainAddress> parse_chain_url(port::StoreUrl url);

}  // namespace holdfast::stores::failover
