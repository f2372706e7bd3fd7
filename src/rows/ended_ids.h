// The ids whose release or cancel has been seen, the last few thousand: an acquire that was sent
// before and comes after is refused. Only the client that drew an id sends its requests, and all of
// them pass through its own store object.
//
// Thread-safety: none. Memory: bounded; none is allocated for an id once `keep` have been seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/machine/hash_index.h"
#include "src/machine/types.h"

namespace holdfast::rows {

class EndedIds {
 public:
  // The oldest goes when there are more than `keep`, which is above zero.
  explicit EndedIds(std::size_t keep) : keep_(keep) {}

  void add(machine::AcquisitionId id);
  bool contains(machine::AcquisitionId id) const;

 private:
  std::size_t keep_;
  std::vector<machine::AcquisitionId> ids_;  // A ring, once it is full.
  std::uint32_t next_ = 0;                   // Its oldest then.
  machine::HashIndex index_;
};

}  // namespace holdfast::rows
