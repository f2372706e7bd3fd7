#include "lab/exhibits/steps.h"

#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "lab/exhibits/command.h"
#include "lab/exhibits/given_ids.h"
#include "lab/testing/story.h"

namespace holdfast::lab {
namespace {

constexpr std::int64_t kMs = 1'000'000;

std::string steps_of(const testing::Story& story) {
  const History history = story.history();
  std::ostringstream out;
  print_steps(history, check(history), {{1, "alice"}, {2, "bob"}}, out);
  return out.str();
}

TEST(StepsTest, ALateReleaseAndTwoHoldersAreTold) {
  testing::Story story;
  story.acquire(1, 0, kMs, {.token = 7, .deadline = 300 * kMs, .ttl = 300 * kMs});
  story.acquire(2, 2 * kMs, 100 * kMs, {.token = 8, .deadline = 900 * kMs, .wait = 500 * kMs});
  story.write(2, 150 * kMs, 1, {.token = 8});
  story.call(Kind::kRelease, 1, 200 * kMs, 201 * kMs, Outcome::kLost);
  story.death(2, 210 * kMs);
  EXPECT_EQ(steps_of(story),
            "     1 ms  alice  has the lock until 300 ms, with token 7\n"
            "     2 ms  bob    asks for the lock\n"
            "   100 ms  bob    has the lock until 900 ms, with token 8\n"
            "   100 ms  >>>    V0: the store has granted it to alice and bob at once\n"
            "   100 ms  >>>    V1: alice and bob both believe that they hold it\n"
            "   150 ms  bob    writes with token 8: accepted\n"
            "   201 ms  alice  is told: it was not yours any more\n"
            "   210 ms  bob    is killed\n");
}

TEST(StepsTest, AQuestionIsToldOnlyWhereSomethingLiesBeforeItsAnswer) {
  testing::Story story;
  story.acquire(1, 0, kMs, {.outcome = Outcome::kUnavailable});
  story.acquire(1, 10 * kMs, 30 * kMs, {.outcome = Outcome::kTimedOut, .wait = 20 * kMs});
  story.fault(FaultKind::kRestartEmpty, 40 * kMs, 50 * kMs);
  story.acquire(1, 60 * kMs, 0, {});  // Never answered.
  EXPECT_EQ(steps_of(story),
            "     1 ms  alice  is told: unavailable\n"
            "    30 ms  alice  has waited in vain\n"
            "    40 ms  store  restart empty begins\n"
            "    50 ms  store  restart empty is over\n"
            "    60 ms  alice  asks for the lock\n");
}

TEST(GivenIdsTest, TheFirstDuplicateIsToldWithWhomItWasGivenTo) {
  GivenIds given;
  given.tell(0, "alice", "starts");
  given.add(kMs, "alice", 41);
  given.add(kMs, "bob", 42);
  EXPECT_TRUE(given.unique());
  given.add(2 * kMs, "bob", 41);
  given.add(3 * kMs, "alice", 42);
  EXPECT_EQ(given.count(), 4u);
  EXPECT_EQ(given.duplicates(), 2u);
  std::ostringstream out;
  given.print(out);
  EXPECT_EQ(out.str(),
            "     0 ms  alice  starts\n"
            "     1 ms  alice  gives 41\n"
            "     2 ms  bob    gives 41\n"
            "     2 ms  >>>    duplicate: alice and bob have both given it\n"
            "4 ids, 2 of them given before\n");
}

TEST(GivenIdsTest, IdsThatAreUniqueAreCounted) {
  GivenIds given;
  std::ostringstream nothing;
  given.print(nothing);
  EXPECT_EQ(nothing.str(), "");
  given.add(0, "alice", 41);
  given.add(0, "bob", 42);
  std::ostringstream out;
  given.print(out);
  EXPECT_EQ(out.str(), "2 ids, none of them given before\n");
}

TEST(GivenIdsTest, OneHostThatGivesAnIdTwiceGivesADuplicate) {
  GivenIds given;
  given.add(0, "alice", 41);
  given.add(kMs, "alice", 41);
  EXPECT_EQ(given.duplicates(), 1u);
  std::ostringstream out;
  given.print(out);
  EXPECT_NE(out.str().find("duplicate: alice has given it twice"), std::string::npos);
}

TEST(ExhibitsCommandTest, AWordThatIsNotUnderstoodIsNamed) {
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(run_exhibits({.list = true, .names = {"nosuch"}}, out, err), 2);
  EXPECT_NE(err.str().find("'nosuch'"), std::string::npos);
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace holdfast::lab
