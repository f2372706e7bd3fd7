#include "lab/report/facts.h"

namespace holdfast::lab {

bool as_expected(const Expectations& expected, const Verdict& verdict) {
  for (std::size_t i = 0; i < kClasses; ++i) {
    if (!as_expected(expected[i], verdict.counts[i])) return false;
  }
  return true;
}

}  // namespace holdfast::lab
