// The locks of a service with several shards: one store for each shard, and each request goes to
// the shard of its name (docs/design/0073-shards.md).
//
// Guarantee: as port::Store, for each lock. A shard that does not answer delays no operation on a
// lock of another one, except for what asks all of them: list(), watch() and probe().
// Not guaranteed: several locks in one step, and the order of two shards' events and pushes. A
// call of renew() for several of its groups is answered when all of them are.
//
// Thread-safety, blocking, errors: as port::Store. Ownership: as port::Store.
#pragma once

#include <memory>
#include <vector>

#include "src/port/store.h"

namespace holdfast::stores::holdfast {

// `shards`: in their order, two or more, with the same loop.
std::unique_ptr<port::Store> make_sharded_store(std::vector<std::unique_ptr<port::Store>> shards);

}  // namespace holdfast::stores::holdfast
