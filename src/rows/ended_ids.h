// Remembers the last few thousand ids that were released or cancelled. An acquire that was sent
// before its release but arrives later is refused. This works because only the client that drew an
// id sends requests with it, all through its own store object.
//
// Thread-safety: none. Memory: limited; once `keep` ids were seen, further ones allocate none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/machine/hash_index.h"
#include "src/machine/types.h"

namespace holdfast::rows {

class EndedIds {
 public:
  // Drops the oldest id above `keep`, which must be positive.
  explicit EndedIds(std::size_t keep) : keep_(keep) {}

  void add(machine::AcquisitionId id);
  bool contains(machine::AcquisitionId id) const;

 private:
  std::size_t keep_;
  std::vector<machine::AcquisitionId> ids_;  // A ring once it is full.
  std::uint32_t next_ = 0;                   // Its oldest entry then.
  machine::HashIndex index_;
};

}  // namespace holdfast::rows
