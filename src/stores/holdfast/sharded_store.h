// The locks of a service with several shards: one store for each shard, and each request goes to
// the shard of its name (docs/design/0073-shards.md).
//
// Guarantee: as port::Store, for each lock. A shard that does not answer delays no operation on a
// lock of another one, except for what asks all of them: list(), watch() and probe(). These wait
// for it until their deadline, and then go on without it, unless no shard answers. The listener is
// told which shard is left out.
// Not guaranteed: several locks in one step, and the order of two shards' events and pushes. A
// call of renew() for several of its groups is answered when all of them are.
//
// Thread-safety, blocking, errors: as port::Store. Ownership: as port::Store; the listener outlives
// it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/port/store.h"

namespace holdfast::stores::holdfast {

// A watch of one shard's locks. It goes on while the handle is kept. If the shard has not confirmed
// it in time, kMissed comes when it does.
struct BegunWatch {
  port::WatchHandle handle;
  std::optional<Error> unconfirmed{};
};

struct ServiceShard {
  std::unique_ptr<port::Store> store;
  // As Store::watch(), but an answer that does not come in time is no error. Lives with the store.
  std::function<void(std::string prefix, port::EventSink sink, base::BootInstant deadline,
                     port::Done<BegunWatch> done)>
      watch;
};

// `shards`: in their order, two or more, with the same loop.
std::unique_ptr<port::Store> make_sharded_store(std::vector<ServiceShard> shards,
                                                port::Listener& listener);

}  // namespace holdfast::stores::holdfast
