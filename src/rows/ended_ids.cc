#include "src/rows/ended_ids.h"

namespace holdfast::rows {
namespace {

std::uint64_t hash_of(machine::AcquisitionId id) { return machine::mix(id.high, id.low); }

}  // namespace

void EndedIds::add(machine::AcquisitionId id) {
  if (contains(id)) return;
  if (ids_.size() < keep_) {
    ids_.push_back(id);
    index_.insert(hash_of(id), static_cast<std::uint32_t>(ids_.size() - 1));
    return;
  }
  index_.erase(hash_of(ids_[next_]), next_);
  ids_[next_] = id;
  index_.insert(hash_of(id), next_);
  next_ = (next_ + 1) % static_cast<std::uint32_t>(keep_);
}

bool EndedIds::contains(machine::AcquisitionId id) const {
  return index_.find(hash_of(id), [&](std::uint32_t at) { return ids_[at] == id; }) !=
         machine::kNone;
}

}  // namespace holdfast::rows
