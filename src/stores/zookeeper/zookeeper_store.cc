#include "src/stores/zookeeper/zookeeper_store.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/contend/contend_store.h"
#include "src/port/records_job.h"
#include "src/stores/zookeeper/backend.h"
#include "src/stores/zookeeper/counter.h"
#include "src/stores/zookeeper/records.h"
#include "src/stores/zookeeper/transport/listeners.h"
#include "src/stores/zookeeper/url.h"

namespace holdfast::stores {
namespace {

constexpr auto kFirstContact = std::chrono::seconds(3);

}  // namespace

Result<std::unique_ptr<port::Store>> make_zookeeper_store(port::StoreUrl url,
                                                          const port::StoreContext& context) {
  auto address = zookeeper::parse_zookeeper_url(url);
  if (!address) return address.error();
  if (auto known = port::reject_unknown_options(url, "zookeeper"); !known) return known.error();
  if (context.records != nullptr) {
    return port::answer(*context.records, zookeeper::open_records(*address, context));
  }
  if (context.counter != nullptr) return zookeeper::make_counter(*address, context);
  const auto session = address->session;
  contend::FirstContact contact;
  // The client library keeps trying without saying why. This check finds the reason, and leaves
  // half of the time for the wait for the lock.
  const auto now = base::BootClock::now();
  contact.until =
      now + std::min<base::BootClock::duration>(kFirstContact, (context.open_by - now) / 2);
  contact.fatal = Errc::kPermissionDenied;
  contact.when_silent = [servers = address->endpoints, until = contact.until] {
    return zookeeper::look_for_listeners(servers, until);
  };
  return contend::make_store(zookeeper::make_backend(*std::move(address), context), context,
                             session, contact);
}

}  // namespace holdfast::stores
