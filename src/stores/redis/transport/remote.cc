#include "src/stores/redis/transport/remote.h"

#include <utility>

#include "src/stores/redis/transport/resolver.h"

namespace holdfast::stores::redis {

Result<RemotePtr> Remote::make(RedisAddress address, std::shared_ptr<Primary> primary) {
  auto remote = std::make_shared<Remote>();
  if (address.tls) {
    auto tls = TlsContext::make(address);
    if (!tls) return tls.error();
    remote->tls = *std::move(tls);
  }
  remote->primary = primary != nullptr ? std::move(primary) : std::make_shared<Resolver>(address);
  remote->address = std::move(address);
  return RemotePtr(std::move(remote));
}

}  // namespace holdfast::stores::redis
