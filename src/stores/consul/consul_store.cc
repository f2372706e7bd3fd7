#include "src/stores/consul/consul_store.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "src/contend/contend_store.h"
#include "src/port/records_job.h"
#include "src/stores/consul/backend.h"
#include "src/stores/consul/records.h"
#include "src/stores/consul/url.h"

namespace holdfast::stores {

Result<std::unique_ptr<port::Store>> make_consul_store(port::StoreUrl url,
                                                       const port::StoreContext& context) {
  auto address = consul::parse_consul_url(url);
  if (!address) return address.error();
  if (auto known = port::reject_unknown_options(url, "consul"); !known) return known.error();
  if (context.records != nullptr) {
    return port::answer(*context.records, consul::open_records(*address, context));
  }
  auto backend = std::make_unique<consul::ConsulBackend>(*address, context);
  const auto until = std::min(
      context.open_by, base::BootClock::now() + address->connect_timeout + std::chrono::seconds(2));
  return contend::make_store(std::move(backend), context, address->session_ttl,
                             {until, Errc::kUnavailable});
}

}  // namespace holdfast::stores
