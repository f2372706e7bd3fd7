// Reads the URL of a Redis store, and checks it as a whole.
//
// Thread-safety: a pure function, except for files, descriptors and the environment.
// Errors: kInvalidArgument, and those of parse_redis_url() and TlsContext::make().
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/port/registry.h"
#include "src/stores/redis/recipes/options.h"
#include "src/stores/redis/sentinel/sentinel_primary.h"
#include "src/stores/redis/transport/remote.h"

namespace holdfast::stores::redis {

struct Opening {
  RemotePtr remote;
  std::shared_ptr<SentinelPrimary> sentinels;  // Null without Sentinels.
  RecipeOptions recipe;
};

Result<Opening> read_url(port::StoreUrl url, const port::StoreContext& context);

}  // namespace holdfast::stores::redis
