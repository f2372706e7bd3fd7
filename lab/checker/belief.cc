// V1: did more owners believe they hold than the mode allows?
#include <algorithm>

#include "lab/checker/rules.h"

namespace holdfast::lab {

void check_beliefs(const Ledger& ledger, Findings& findings) {
  std::vector<Span> spans;
  for (const std::vector<std::uint32_t>& of_lock : ledger.by_lock) {
    spans.clear();
    for (const std::uint32_t index : of_lock) {
      append_beliefs(ledger.acquisitions[index], index, spans);
    }
    find_overlaps(ledger, spans, [&](const Span& earlier, const Span& later) {
      findings.add(Class::kV1, "two-beliefs", ledger.acquisitions[earlier.acquisition].acquire.ret,
                   ledger.acquisitions[later.acquisition].acquire.ret, later.start,
                   std::min(earlier.end, later.end),
                   [&] { return overlap_text(ledger, earlier, later, "believed to be held"); });
    });
  }
}

}  // namespace holdfast::lab
