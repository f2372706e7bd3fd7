// The records of ids in an etcd cluster.
//
//   <prefix>hf1/r/<key>   the text, without a lease; its mod_revision is the version
//
// A change is a transaction that compares the revision. read() is a transaction, too, with a
// deletion of nothing in it: a member that stood still may answer a plain linearizable read with
// old data (etcd #20418), and this one goes the way of a write.
//
// Guarantee, thread-safety, errors: as port::Records. Blocking: until `by`.
// Ownership: connections of its own.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/port/records.h"
#include "src/stores/etcd/url.h"

namespace holdfast::stores::etcd {

// Asks the cluster once. Errors: as Rpc::make(); kUnavailable, kPermissionDenied.
Result<std::unique_ptr<port::Records>> open_records(const EtcdAddress& address,
                                                    base::BootInstant open_by);

}  // namespace holdfast::stores::etcd
