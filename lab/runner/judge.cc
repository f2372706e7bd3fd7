#include <algorithm>

#include "lab/runner/run.h"

namespace holdfast::lab {

Judgements judge(const Scenario& scenario, const Verdict& verdict) {
  Judgements judgements{};
  for (std::size_t i = 0; i < kClasses; ++i) {
    const auto kind = static_cast<Class>(i);
    judgements[i] = {kind, scenario.expected(kind), verdict.count(kind)};
  }
  return judgements;
}

bool as_expected(const Judgements& judgements) {
  return std::all_of(judgements.begin(), judgements.end(),
                     [](const Judgement& each) { return each.fits(); });
}

std::string complaint(const Judgement& judgement) {
  if (judgement.fits()) return {};
  const std::string name(name_of(judgement.kind));
  if (judgement.expected == Expected::kMust) {
    return name + ": had to be seen, and was not: the cell is wrong, or nothing was tried";
  }
  return name + ": seen " + std::to_string(judgement.seen) + " times, expected never";
}

}  // namespace holdfast::lab
