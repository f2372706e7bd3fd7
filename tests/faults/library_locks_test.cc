// Lock libraries of other languages, as they are, at `holdfast serve`: beside Holdfast's own
// clients, and over a kill of the service.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/faults/recipe_scenes.h"
#include "tests/faults/redis_peer.h"
#include "tests/support/holdfast_server.h"

namespace holdfast::faults {
namespace {

using support::HoldfastServer;

constexpr milliseconds kWatchdog = 6s;     // Redisson renews every third of it.
constexpr milliseconds kTheirLease = 60s;  // Nobody renews it: it must outlast a busy machine.

HoldfastServer& server() {
  static HoldfastServer one;
  return one;
}

// One process for all cases of a library.
RedisPeer& peer(const std::string& name) {
  static std::map<std::string, std::unique_ptr<RedisPeer>> all;
  auto& one = all[name];
  if (one == nullptr || !one->running()) {
    one = std::make_unique<RedisPeer>(name, server().port(),
                                      name == "redisson" ? kWatchdog : kTheirLease);
  }
  return *one;
}

class LibraryAtServiceTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const auto why = HoldfastServer::unavailable()) GTEST_SKIP() << *why;
    if (const std::string why = no_peer(library()); !why.empty()) GTEST_SKIP() << why;
  }
  static std::string library() { return GetParam(); }
  static RedisPeer& other() { return peer(library()); }
  static RecipePlace place(milliseconds session = 30s) {
    return {server().url(), session, [] { return std::make_unique<PeerProgram>(other()); }};
  }
  // A name that no other case has.
  static std::string name(const std::string& word) { return library() + "/" + word; }
};

TEST_P(LibraryAtServiceTest, ItAndOurClientsExcludeEachOther) {
  exclude_each_other(place(), name("orders/42"));
}

TEST_P(LibraryAtServiceTest, ItWaitsForOurRelease) {
  const Client client = connect(server().url());
  Lease lease = hold(client, name("ours"));
  const int asked = other().tell("take", name("ours"));
  let_pass(200ms);
  EXPECT_FALSE(other().answered(asked));
  expect_released(lease);
  // Redisson would look again when the lease ends, after 30 s: it was woken.
  EXPECT_TRUE(other().answer(asked, 20s));
  EXPECT_TRUE(other().ask("give", name("ours")));
}

TEST_P(LibraryAtServiceTest, ItGetsWhatAKilledHolderOfOursHeld) {
  ActorProcess holder(server().url());
  ASSERT_EQ(holder.ask("acquire " + name("killed") + " 1000").word, "granted");
  const int asked = other().tell("take", name("killed"));
  holder.kill();
  EXPECT_TRUE(other().answer(asked));
  EXPECT_TRUE(other().ask("give", name("killed")));
}

TEST_P(LibraryAtServiceTest, APausedHolderOfOursIsToldBeforeItHolds) {
  a_paused_holder_is_told_first(place(1s), name("paused"));
}

TEST_P(LibraryAtServiceTest, NeverTwoOfACrowd) {
  processes_never_overlap(place(5s), name("crowd"), 4);
}

TEST_P(LibraryAtServiceTest, ItExtendsWhileWeWait) {
  const Client client = connect(server().url());
  ASSERT_TRUE(other().ask("take", name("extended")));
  auto waiting = wait_for(client, name("extended"));
  if (library() != "redisson") {  // Which does so by itself.
    EXPECT_TRUE(other().ask("extend", name("extended")));
  }
  EXPECT_TRUE(other().ask("give", name("extended")));
  EXPECT_TRUE(waiting.get());
}

// Redis without an append-only file, or with one that is written each second, forgets it.
TEST_P(LibraryAtServiceTest, ItsLockOutlivesAKillOfTheService) {
  ASSERT_TRUE(other().ask("take", name("kept")));
  server().kill9();
  server().start();
  const Client client = connect(server().url());
  EXPECT_FALSE(is_free(client, name("kept")));
  auto waiting = wait_for(client, name("kept"));
  // Its connections are gone; some libraries tell of that once before they connect again.
  if (eventually([&] {
        try {
          return other().ask("give", name("kept"));
        } catch (const std::runtime_error&) {
          return false;
        }
      })) {
    EXPECT_TRUE(waiting.get());
  } else {
    ADD_FAILURE() << "it cannot release any more";
  }
}

std::string name_of(const ::testing::TestParamInfo<const char*>& one) {
  std::string name(one.param);
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Libraries, LibraryAtServiceTest,
                         ::testing::Values("redisson", "redis-py", "redsync", "redislock",
                                           "node-redlock"),
                         &name_of);

// They need queues, counters and several kinds of holders in one key, which no listed script has.
// An answer that is not an error would be taken for a lock.
TEST(RedissonAtServiceTest, ItsOtherObjectsAreRefusedByTheirNames) {
  if (const auto why = HoldfastServer::unavailable()) GTEST_SKIP() << *why;
  if (const std::string why = no_peer("redisson"); !why.empty()) GTEST_SKIP() << why;
  RedisPeer& redisson = peer("redisson");
  const std::pair<std::string, std::string> cases[] = {
      {"try-fair", "RFairLock"},
      {"try-fenced", "RFencedLock"},
      {"try-spin", "RSpinLock (or of an RLock of older versions)"},
      {"try-read", "RReadWriteLock"},
      {"try-write", "RReadWriteLock"},
      {"set-permits", "RSemaphore or RPermitExpirableSemaphore"},
      {"try-permit", "RSemaphore"},
      {"try-expiring", "RPermitExpirableSemaphore"},
      {"set-count", "RCountDownLatch"}};
  for (const auto& [plain, object] : cases) {
    for (const std::string& verb : {plain, "load-" + plain}) {
      try {
        redisson.ask(verb, "refused/" + verb);
        ADD_FAILURE() << verb << " was answered";
      } catch (const std::runtime_error& error) {
        const std::string said = error.what();
        EXPECT_NE(said.find(" is of Redisson's " + object + ", and"), std::string::npos)
            << verb << ": " << said;
      }
    }
  }
  EXPECT_TRUE(redisson.ask("take", "refused/none")) << "its RLock goes on";
  EXPECT_TRUE(redisson.ask("give", "refused/none"));
}

// The watchdog's renewals, for three times as long as a lease of its own.
TEST(RedissonAtServiceTest, ItsRenewalKeepsUsOut) {
  if (const auto why = HoldfastServer::unavailable()) GTEST_SKIP() << *why;
  if (const std::string why = no_peer("redisson"); !why.empty()) GTEST_SKIP() << why;
  RedisPeer briefly("redisson", server().port(), 2s);
  const Client client = connect(server().url());
  ASSERT_TRUE(briefly.ask("take", "renewed"));
  for (int second = 0; second < 6; ++second) {
    let_pass(1s);
    EXPECT_FALSE(is_free(client, "renewed"));
  }
  auto waiting = wait_for(client, "renewed");
  briefly.kill9();
  EXPECT_TRUE(waiting.get());
}

}  // namespace
}  // namespace holdfast::faults
