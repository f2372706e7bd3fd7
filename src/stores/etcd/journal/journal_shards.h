// How many shards a journal in etcd has: its first record (docs/design/0073-shards.md).
//
//   <prefix>hf1/j/about   "2 <number of shards> <name of the hash function>"
//
// A journal with one shard has no such record. Its own key `about` lies there and begins with 1,
// so a server of before refuses a journal with several.
//
// Guarantee: of servers that begin a journal at the same time all get the same answer, or an error.
// Thread-safety: a pure function of what etcd holds. Blocking: until `by`, or ten seconds.
// Errors: kInvalidArgument (it has another number than was wished), kVersionMismatch (another hash
// function or format), kCorruptState (the record is gone, or damaged), kUnavailable,
// kPermissionDenied.
#pragma once

#include <cstdint>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/stores/etcd/url.h"

namespace holdfast::stores::etcd {

// `wanted`: a new journal gets so many; 0: eight.
Result<std::uint32_t> fix_shards(const EtcdAddress& address, std::uint32_t wanted,
                                 base::BootInstant by);

}  // namespace holdfast::stores::etcd
