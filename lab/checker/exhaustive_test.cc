// The checker against the definitions, on random small histories: what it finds in O(n log n) is
// what trying every order and every instant finds. HOLDFAST_LAB_SEED=N replays one history,
// HOLDFAST_LAB_SEEDS=N draws that many.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lab/checker/checker.h"
#include "lab/checker/linearize.h"
#include "lab/history/text.h"
#include "lab/testing/small_history.h"

namespace holdfast::lab {
namespace {

using testing::SmallHistory;
using testing::SmallHold;
using testing::SmallTruth;

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// The same calls for the search that samples are judged with.
Legality searched(const SmallHistory& small) {
  std::vector<Ticket> tickets;
  std::vector<Step> steps;
  for (const SmallHold& hold : small.holds) {
    const auto ticket = static_cast<std::uint32_t>(tickets.size());
    tickets.push_back({hold.mode, hold.count, testing::kSmallCapacity, Token{0, hold.token}});
    steps.push_back({Step::Kind::kGrant, ticket, hold.invoked, hold.returned, true});
    const Step end{Step::Kind::kEnd, ticket, std::max(hold.invoked, testing::sure_end_of(hold)),
                   testing::possible_end_of(hold), true};
    steps.push_back(end);
  }
  if (small.busy) {
    const auto ticket = static_cast<std::uint32_t>(tickets.size());
    tickets.push_back({});
    steps.push_back({Step::Kind::kBusy, ticket, small.busy->invoked, small.busy->returned, true});
  }
  return search(tickets, steps, 1'000'000);
}

struct Totals {
  int v0 = 0, v1 = 0, v2 = 0, v3 = 0, clean = 0, busy = 0, busy_found = 0, grown = 0;
};

void compare(std::uint64_t seed, Totals& totals) {
  machine::testing::Dice dice(seed);
  const SmallHistory small = testing::draw_small(dice);
  const SmallTruth truth = testing::judge_small(small);
  const History history = testing::events_of(small);
  const Verdict verdict = check(history);
  std::size_t busy_found = 0;
  for (const Violation& one : verdict.violations) busy_found += one.rule == "busy-without-holder";
  const bool v0 = verdict.count(Class::kV0) > busy_found;
  const Legality full = searched(small);
  const bool agree =
      (small.loss || v0 == !truth.v0_legal) && (verdict.count(Class::kV1) > 0) == truth.v1 &&
      (verdict.count(Class::kV2) > 0) == truth.v2 && (verdict.count(Class::kV3) > 0) == truth.v3 &&
      verdict.count(Class::kMalformed) == 0 && (full == Legality::kLegal) == truth.busy_legal &&
      full != Legality::kUndecided && (small.loss || busy_found == 0 || !truth.busy_legal);
  totals.v0 += v0;
  totals.v1 += truth.v1;
  totals.v2 += truth.v2;
  totals.v3 += truth.v3;
  totals.clean += verdict.clean();
  for (const Violation& one : verdict.violations) totals.grown += one.rule == "token-after-loss";
  totals.busy += !small.loss && truth.v0_legal && !truth.busy_legal;
  totals.busy_found += !small.loss && truth.v0_legal && busy_found > 0;
  if (agree) return;
  std::ostringstream text;
  write(history, text);
  print(verdict, text);
  FAIL() << "HOLDFAST_LAB_SEED=" << seed << ": exhaustively V0 " << !truth.v0_legal << ", V1 "
         << truth.v1 << ", V2 " << truth.v2 << ", V3 " << truth.v3 << ", busy answer wrong "
         << !truth.busy_legal << ", full search " << static_cast<int>(full) << "\n"
         << text.str();
}

TEST(ExhaustiveTest, TheCheckerFindsWhatTryingEverythingFinds) {
  const std::uint64_t only = number("HOLDFAST_LAB_SEED", 0);
  const std::uint64_t count = number("HOLDFAST_LAB_SEEDS", 120'000);
  Totals totals;
  for (std::uint64_t seed = only != 0 ? only : 1; seed <= (only != 0 ? only : count); ++seed) {
    compare(seed, totals);
    if (HasFatalFailure()) return;
  }
  std::cout << "clean " << totals.clean << ", V0 " << totals.v0 << ", V1 " << totals.v1 << ", V2 "
            << totals.v2 << ", V3 " << totals.v3 << "; wrong busy answers " << totals.busy
            << ", seen from the sample alone " << totals.busy_found << "\n";
  if (only != 0 || count < 10'000) return;
  // All kinds are drawn often enough for the comparison to mean something.
  const int few = static_cast<int>(count / 100);
  EXPECT_GT(totals.clean, few);
  EXPECT_GT(totals.v0, few);
  EXPECT_GT(totals.v1, few);
  EXPECT_GT(totals.v2, few);
  EXPECT_GT(totals.v3, few);
  EXPECT_GT(totals.grown, few / 2);
  EXPECT_GT(totals.busy_found, totals.busy * 3 / 4);
}

}  // namespace
}  // namespace holdfast::lab
