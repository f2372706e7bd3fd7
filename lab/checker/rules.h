// The rules, one function each, over a ledger. All report to one Findings.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lab/checker/checker.h"
#include "lab/checker/ledger.h"
#include "lab/checker/spans.h"

namespace holdfast::lab {

class Findings {
 public:
  Findings(const CheckOptions& options, Verdict& verdict) : options_(options), verdict_(verdict) {}

  // Counts every violation, and makes a message only for those that are kept.
  void add(Class kind, std::string_view rule, std::size_t first, std::size_t second,
           std::int64_t begin, std::int64_t end, const std::function<std::string()>& message);
  void add(const Violation& violation);

 private:
  const CheckOptions& options_;
  Verdict& verdict_;
};

// "lock 'a': owner 1/2 (token 0.7, event 12) ... overlap 2.000000 ms": how two spans collide.
std::string overlap_text(const Ledger& ledger, const Span& earlier, const Span& later,
                         std::string_view who_thought);

void check_store_order(const Ledger& ledger, const CheckOptions& options, Verdict& verdict,
                       Findings& findings);                               // V0
void check_beliefs(const Ledger& ledger, Findings& findings);             // V1
void check_resource(const Ledger& ledger, Findings& findings);            // V2
void check_refusals(const Ledger& ledger, Findings& findings);            // of the resource
void check_tokens_over_losses(const Ledger& ledger, Findings& findings);  // V2
void check_deadlines(const Ledger& ledger, Findings& findings);           // V3
void check_liveness(const Ledger& ledger, const CheckOptions& options, Findings& findings);
void check_busy(const Ledger& ledger, const CheckOptions& options, Verdict& verdict,
                Findings& findings);  // V0, on samples

}  // namespace holdfast::lab
