#include "lab/report/facts.h"

namespace holdfast::lab {

std::string_view name_of(Expected expected) {
  switch (expected) {
    case Expected::kForbidden: return "never";
    case Expected::kRequired: return "must";
    case Expected::kAllowed: return "may";
  }
  return "";
}

bool as_expected(Expected expected, std::size_t seen) {
  switch (expected) {
    case Expected::kForbidden: return seen == 0;
    case Expected::kRequired: return seen > 0;
    case Expected::kAllowed: return true;
  }
  return false;
}

bool as_expected(const RunFacts& facts, const Verdict& verdict) {
  for (std::size_t i = 0; i < kClasses; ++i) {
    if (!as_expected(facts.expected[i], verdict.counts[i])) return false;
  }
  return true;
}

}  // namespace holdfast::lab
