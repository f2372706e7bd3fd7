#include "src/stores/hybrid/guarantees.h"

#include <utility>

namespace holdfast::stores::hybrid {

Guarantees guarantees(Guarantees arbiter) {
  Guarantees result = std::move(arbiter);
  result.store = "hybrid";
  result.watch_every_change = false;
  result.fair = result.shared = result.permits = result.upgrade = result.multi = false;
  result.faults.insert(
      result.faults.begin(),
      {"the filter is flushed, down, slow, or lets everybody pass", Guarantee::kYes,
       Guarantee::kYes, "the arbiter alone decides; it is asked more often, and no lock is lost"});
  return result;
}

}  // namespace holdfast::stores::hybrid
