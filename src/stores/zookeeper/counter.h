// A counter of ZooKeeper: the number that it appends to the name of a sequential node.
//
//   /chroot/NAME/holdfast-0000000012   one batch's nodes, in one transaction; removed at once
//
// The number belongs to the folder: it counts the nodes that were ever made there, whatever their
// names. Other programs may make theirs beside ours. It has 32 bits and a sign.
//
// Guarantee, thread-safety, errors: as port::NativeCounter. Nodes of a process that ends between
// the two requests go with its session.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "holdfast/result.h"
#include "src/port/native_counter.h"
#include "src/port/registry.h"
#include "src/stores/zookeeper/url.h"

namespace holdfast::stores::zookeeper {

// The number in the name of a new sequential node.
// Errors: kUnsupported: it has overflowed. kCorruptState: there is none.
Result<std::uint64_t> sequence_number(std::string_view node);

// Answers `context.counter`. Errors: as NativeCounterJob.
Result<std::unique_ptr<port::Store>> make_counter(const ZookeeperAddress& address,
                                                  const port::StoreContext& context);

}  // namespace holdfast::stores::zookeeper
