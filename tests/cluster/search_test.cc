// An exhaustive search of the lock service's cluster (model.h): whatever order messages arrive in,
// whichever server or client pauses between two steps, whoever crashes.
// Each flaw of model.h must be found.
//
// HOLDFAST_SEARCH=large takes larger scopes, which need minutes.
#include <cstdio>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/cluster/model.h"
#include "tests/cluster/search.h"

namespace holdfast::testing::cluster {
namespace {

Search::Outcome search(const Scope& scope) {
  const Search::Outcome outcome = Search(scope).run();
  std::printf("%zu states, %zu take-overs, %zu grants, %zu renewals, %zu closings, %zu refused"
              "%s%s\n",
              outcome.states, outcome.take_overs, outcome.grants, outcome.renewals,
              outcome.closings, outcome.refused, *outcome.violation == '\0' ? "" : ": ",
              outcome.violation);
  return outcome;
}

void expect_safe(Scope scope, Scope large) {
  const Search::Outcome outcome = search(is_large() ? large : scope);
  EXPECT_STREQ(outcome.violation, "");
  EXPECT_GT(outcome.states, 10'000U);
  EXPECT_GT(outcome.take_overs, 100U);
  EXPECT_GT(outcome.grants, 100U);
  EXPECT_GT(outcome.refused, 0U);
}

// Found with the flaw, and not without it.
void expect_found(Scope scope, Flaw flaw, std::string_view violation = kTwoHold) {
  EXPECT_STREQ(search(scope).violation, "");
  scope.flaw = flaw;
  const std::string_view found = search(scope).violation;
  // Two clients that are granted the same thing have one token, too.
  EXPECT_TRUE(found == violation || (violation == kTwoHold && found == kTokenAgain)) << found;
}

TEST(ClusterSearch, TwoContendAndTheLeaderIsReplaced) {
  expect_safe({.ticks = 4, .lease = 2, .take_overs = 1},
              {.ticks = 4, .lease = 2, .take_overs = 2});
}

TEST(ClusterSearch, TheLeaderIsReplacedTwice) {
  expect_safe({.ticks = 5, .lease = 2, .take_overs = 2, .contenders = 1},
              {.ticks = 6, .lease = 2, .take_overs = 2, .contenders = 1});
}

TEST(ClusterSearch, RenewalsAreAnsweredByTheDeadline) {
  expect_safe({.ticks = 6, .lease = 2, .leadership = 2, .take_overs = 1, .keepalives = 1,
               .renewals = 2, .contenders = 1, .releases = false},
              {.ticks = 6, .lease = 2, .leadership = 2, .take_overs = 1, .keepalives = 1,
               .renewals = 2, .contenders = 1});
}

TEST(ClusterSearch, RenewalsAreAnsweredAfterAWrite) {
  expect_safe({.ticks = 5, .lease = 2, .take_overs = 1, .renewals = 2, .contenders = 1,
               .by_write = true},
              {.ticks = 6, .lease = 2, .take_overs = 1, .renewals = 3, .contenders = 1,
               .by_write = true});
}

TEST(ClusterSearch, BatchesComeTwiceAndAnswersAreLost) {
  expect_safe({.ticks = 2, .lease = 2, .take_overs = 1, .repeats = 1, .lost_answers = 1,
               .renewals = 0},
              {.ticks = 3, .lease = 2, .take_overs = 1, .repeats = 1, .lost_answers = 1});
}

TEST(ClusterSearch, TheKeyVanishesEarlyAndServersCrash) {
  expect_safe({.ticks = 4, .lease = 2, .take_overs = 1, .crashes = 1, .early_ends = 1,
               .contenders = 1},
              {.ticks = 4, .lease = 2, .take_overs = 2, .crashes = 1, .early_ends = 1,
               .contenders = 1});
}

TEST(ClusterSearch, TheLeaderClosesInOrder) {
  expect_safe({.ticks = 4, .lease = 2, .take_overs = 1, .contenders = 1, .closings = 1},
              {.ticks = 4, .lease = 2, .take_overs = 2, .contenders = 1, .closings = 1});
}

TEST(ClusterSearch, LongerRenewals) {
  expect_safe({.ticks = 5, .lease = 2, .longer = 3, .take_overs = 1, .contenders = 1},
              {.ticks = 6, .lease = 2, .longer = 3, .take_overs = 1, .contenders = 1});
}

// --- The search finds what is wrong.

constexpr Scope kOneContender{.ticks = 4, .lease = 2, .take_overs = 1, .renewals = 3,
                              .contenders = 1, .releases = false};
constexpr Scope kByWrite{.ticks = 4, .lease = 2, .take_overs = 1, .renewals = 3, .contenders = 1,
                         .releases = false, .by_write = true};
constexpr Scope kTwoContenders{.ticks = 1, .lease = 2, .take_overs = 1, .others_renewals = 1};

TEST(ClusterSearch, FindsAMissingGuard) { expect_found(kByWrite, Flaw::kNoGuard); }

TEST(ClusterSearch, FindsAKeyThatIsOverwritten) { expect_found(kByWrite, Flaw::kKeyOverwritten); }

TEST(ClusterSearch, FindsAnAnswerAfterTheDeadline) {
  expect_found(kOneContender, Flaw::kNoLookAtDeadline);
}

TEST(ClusterSearch, FindsALookBeforeTheRequestIsRead) {
  expect_found(kOneContender, Flaw::kLooksBeforeReading);
}

TEST(ClusterSearch, FindsATakeOverThatLengthensNothing) {
  expect_found({.ticks = 3, .lease = 2, .leadership = 2, .take_overs = 1, .contenders = 1},
               Flaw::kNoExtension);
}

TEST(ClusterSearch, FindsATakeOverThatForgetsTheOldLeader) {
  expect_found({.ticks = 3, .lease = 2, .leadership = 3, .take_overs = 1, .early_ends = 1,
                .renewals = 2, .contenders = 1},
               Flaw::kNoLeadershipLease);
}

TEST(ClusterSearch, FindsALengthThatIsNotJournaled) {
  expect_found({.ticks = 4, .lease = 2, .longer = 5, .take_overs = 1, .contenders = 1},
               Flaw::kLongerUnjournaled);
}

TEST(ClusterSearch, FindsAReplyBeforeTheCommit) {
  expect_found(kTwoContenders, Flaw::kRepliesEarly);
}

TEST(ClusterSearch, FindsAHeartbeatThatTellsTooMuch) {
  expect_found(kTwoContenders, Flaw::kHeartbeatTellsUncommitted);
}

TEST(ClusterSearch, FindsARecoveryThatReadsTooEarly) {
  expect_found(kTwoContenders, Flaw::kReadsBeforeOwning);
}

TEST(ClusterSearch, FindsARetryWithOtherBytes) {
  expect_found({.ticks = 1, .lease = 2, .take_overs = 1, .lost_answers = 1, .renewals = 0,
                .resends = 1},
               Flaw::kOtherBytes);
}

TEST(ClusterSearch, FindsRenewalsAfterTheClosingRecord) {
  expect_found({.ticks = 2, .lease = 2, .leadership = 2, .take_overs = 1, .contenders = 1,
                .closings = 1},
               Flaw::kRenewsAfterClosing);
}

TEST(ClusterSearch, FindsARefusedRetryThatCountsAsNever) {
  expect_found({.ticks = 1, .lease = 2, .take_overs = 1, .lost_answers = 1, .contenders = 1},
               Flaw::kRefusedMeansNever, kFalseNever);
}

}  // namespace
}  // namespace holdfast::testing::cluster
