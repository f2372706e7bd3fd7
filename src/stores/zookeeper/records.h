// The records of ids in ZooKeeper.
//
//   /chroot/hf1/records/<key>   the text, in a persistent node; its version and one is the version
//
// A node that somebody removed and made again counts from the beginning. Callers' keys hold a
// random word for that.
//
// Guarantee, thread-safety, errors: as port::Records. read() comes after a check that goes the way
// of a write: sync() alone may be answered by a leader that lost its quorum.
// Blocking: until `by`, and for names that are looked up.
// Ownership: a session of its own, without nodes; the context's loop outlives it.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/port/records.h"
#include "src/port/registry.h"
#include "src/stores/zookeeper/url.h"

namespace holdfast::stores::zookeeper {

// Makes the folder. Errors: kUnavailable, kPermissionDenied.
Result<std::unique_ptr<port::Records>> open_records(const ZookeeperAddress& address,
                                                    const port::StoreContext& context);

}  // namespace holdfast::stores::zookeeper
