// The fast form of the two commonest steps, which does not run the lock machine: one exclusive
// acquire of a lock that nobody uses, and the release of a lock that has one holder and nothing
// else. Every other step is the machine's.
//
// Guarantee: the reply, and the document that is written, are those of the machine (alone_test.cc
// compares them).
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "src/machine/command.h"
#include "src/machine/image.h"
#include "src/machine/types.h"
#include "src/stores/memcached/document.h"

namespace holdfast::stores::memcached {

// The lock is not in use. Fills `lock`, whose name is set already. nullopt: ask the machine;
// nothing was changed.
std::optional<machine::Reply> take_alone(const machine::Acquire& acquire, machine::Instant at,
                                         std::uint64_t floor, machine::LockImage& lock);

// nullopt: ask the machine. A reply: the document is to be deleted.
std::optional<machine::Reply> leave_alone(const Document& document, machine::AcquisitionId id,
                                          machine::Instant at);

}  // namespace holdfast::stores::memcached
