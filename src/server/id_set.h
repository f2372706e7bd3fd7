// A set of acquisition ids that is filled once and shrinks from then on, if at all: 34 bytes for
// each of a million, where the standard's set has 60, and without an allocation for each.
//
// Not guaranteed: memory of a part of the ids; all of it is given back with the last one.
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/machine/hash_index.h"
#include "src/machine/types.h"

namespace holdfast::server {

class IdSet {
 public:
  void reserve(std::size_t ids) {
    ids_.reserve(ids);
    index_.reserve(ids);
  }
  std::size_t size() const { return index_.size(); }
  bool contains(const machine::AcquisitionId& id) const { return find(id) != machine::kNone; }
  // It is about to be inserted.
  void prefetch(const machine::AcquisitionId& id) const { index_.prefetch(hash(id)); }
  void insert(const machine::AcquisitionId& id) {
    if (contains(id)) return;
    index_.insert(hash(id), static_cast<std::uint32_t>(ids_.size()));
    ids_.push_back(id);
  }
  void erase(const machine::AcquisitionId& id) {
    const std::uint32_t found = find(id);
    if (found == machine::kNone) return;
    index_.erase(hash(id), found);
    if (index_.size() == 0) *this = IdSet();
  }

 private:
  static std::uint64_t hash(const machine::AcquisitionId& id) {
    return machine::mix(id.high, id.low);
  }
  std::uint32_t find(const machine::AcquisitionId& id) const {
    return index_.find(hash(id), [&](std::uint32_t at) { return ids_[at] == id; });
  }

  machine::HashIndex index_;  // It finds the places in ids_.
  std::vector<machine::AcquisitionId> ids_;
};

}  // namespace holdfast::server
