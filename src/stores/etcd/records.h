// The records of ids on etcd: one key for each, without a lease. A version is the key's
// modification revision, which never comes again in one cluster.
//
//   <prefix>hf1/r/<key>   the text; in the key '%' and '/' are written %25 and %2F
//
// Guarantee, thread-safety, blocking, ownership, errors: as port::Records. Nothing is forgotten but
// by a cluster that lost its majority's disks, or was restored.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/port/records.h"
#include "src/stores/etcd/url.h"

namespace holdfast::stores::etcd {

// Asks the servers once. Errors: kInvalidArgument, kUnavailable, kPermissionDenied.
Result<std::unique_ptr<port::Records>> open_records(const EtcdAddress& address,
                                                    base::BootInstant open_by);

}  // namespace holdfast::stores::etcd
