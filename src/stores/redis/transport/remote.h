// A server as all connections to it see it: log-in, TLS, and where it is.
//
// Thread-safety: safe once made. Ownership: shared by the connections.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/stores/redis/transport/primary.h"
#include "src/stores/redis/transport/secure.h"
#include "src/stores/redis/url.h"

namespace holdfast::stores::redis {

struct Remote {
  RedisAddress address;
  std::shared_ptr<const TlsContext> tls;  // Null for a plain connection.
  std::shared_ptr<Primary> primary;

  // Does no I/O except reading the TLS files. Errors: those of TlsContext::make().
  // Without `primary` it is the host of the address.
  static Result<std::shared_ptr<const Remote>> make(RedisAddress address,
                                                    std::shared_ptr<Primary> primary = nullptr);
};
using RemotePtr = std::shared_ptr<const Remote>;

}  // namespace holdfast::stores::redis
