#include <gtest/gtest.h>

#include "src/stores/redis/connections.h"
#include "src/stores/redis/transport/test_wire.h"

namespace holdfast::stores::redis::testing {
namespace {

class ConnectionsLiveTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_REDIS(); }

  TestLoop loop_;
};

TEST_F(ConnectionsLiveTest, ABlockingCallerHasAConnectionForItselfUnlessACrowdIsUnderWay) {
  RedisServer server;
  const Requests requests("0123456789abcdef", nullptr);
  Connections all(remote_of(server.url()),
                  {loop_.io,
                   requests,
                   {},
                   "heard",
                   {[](std::string_view) {}, [](bool) {}, [](const Error&) {}},
                   [](const std::string&) {}});
  const ScriptCall look = requests.call(ScriptName::kInspect, "a", {});
  const auto alone = all.run_here(look, BootClock::now() + 10s);
  ASSERT_TRUE(alone && *alone);

  server.pause();
  std::vector<Awaited<Result<Reply>>> crowd(100);
  for (auto& each : crowd) {
    all.run(look, BootClock::now() + 60s,
            [&each](Result<Reply> reply) { each.give(std::move(reply)); });
  }
  // The server hangs, so a request would be an error when its time is over.
  EXPECT_FALSE(all.run_here(look, BootClock::now() + 10s));
  server.resume();
  for (auto& each : crowd) EXPECT_TRUE(each.wait());
  const auto again = all.run_here(look, BootClock::now() + 10s);
  EXPECT_TRUE(again && *again);
  all.close();
}

}  // namespace
}  // namespace holdfast::stores::redis::testing
