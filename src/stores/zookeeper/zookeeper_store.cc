#include "src/stores/zookeeper/zookeeper_store.h"

#include <utility>

#include "src/contend/contend_store.h"
#include "src/stores/zookeeper/backend.h"
#include "src/stores/zookeeper/url.h"

namespace holdfast::stores {

Result<std::unique_ptr<port::Store>> make_zookeeper_store(port::StoreUrl url,
                                                          const port::StoreContext& context) {
  auto address = zookeeper::parse_zookeeper_url(url);
  if (!address) return address.error();
  if (!url.options.empty()) {
    return Error(Errc::kInvalidArgument,
                 "zookeeper URL: there is no option '" + url.options.front().first + "'");
  }
  const auto session = address->session;
  return contend::make_store(zookeeper::make_backend(*std::move(address), context), context,
                             session);
}

}  // namespace holdfast::stores
