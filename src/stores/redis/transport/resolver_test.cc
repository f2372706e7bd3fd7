#include "src/stores/redis/transport/resolver.h"

#include <atomic>
#include <chrono>
#include <future>
#include <semaphore>
#include <thread>

#include <gtest/gtest.h>

namespace holdfast::stores::redis {
namespace {

using namespace std::chrono_literals;
using base::BootClock;

RedisAddress host(const std::string& name) {
  RedisAddress address;
  address.host = name;
  address.port = 6390;
  return address;
}

Endpoints one_endpoint() { return Resolver(host("10.0.0.1")).cached().endpoints; }

TEST(ResolverTest, AddressesNeedNoLookup) {
  const Resolver::Lookup never = [](const std::string&, std::uint16_t) -> Result<Endpoints> {
    ADD_FAILURE() << "looked up";
    return Endpoints();
  };
  Resolver v4(host("10.1.2.3"), never);
  ASSERT_EQ(v4.cached().endpoints.size(), 1U);
  EXPECT_EQ(v4.cached().endpoints[0].display(), "10.1.2.3:6390");
  Resolver v6(host("::1"), never);
  EXPECT_EQ(v6.resolve(BootClock::now())->endpoints.at(0).display(), "[::1]:6390");
  RedisAddress socket;
  socket.socket_path = "/run/redis.sock";
  EXPECT_EQ(Resolver(socket, never).cached().endpoints.at(0).display(), "/run/redis.sock");
}

TEST(ResolverTest, TheSystemKnowsLocalhost) {
  Resolver resolver(host("localhost"));
  EXPECT_TRUE(resolver.cached().endpoints.empty());
  const auto found = resolver.resolve(BootClock::now() + 10s);
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_FALSE(found->endpoints.empty());
  EXPECT_FALSE(resolver.cached().endpoints.empty());
}

TEST(ResolverTest, TheLastGoodAnswerServesWhileTheNameServiceIsDown) {
  std::atomic<bool> down = false;
  Resolver resolver(host("db.example"),
                    [&](const std::string& name, std::uint16_t) -> Result<Endpoints> {
                      if (down) return Error{Errc::kUnavailable, "cannot look up " + name};
                      return one_endpoint();
                    });
  ASSERT_TRUE(resolver.resolve(BootClock::now() + 10s));
  down = true;
  const auto again = resolver.resolve(BootClock::now() + 10s);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->endpoints.at(0).display(), "10.0.0.1:6390");
}

TEST(ResolverTest, WithoutAnyAnswerTheErrorIsTold) {
  Resolver resolver(host("db.example"),
                    [](const std::string& name, std::uint16_t) -> Result<Endpoints> {
                      return Error{Errc::kUnavailable, "cannot look up " + name};
                    });
  const auto found = resolver.resolve(BootClock::now() + 10s);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message(), "cannot look up db.example");
}

TEST(ResolverTest, ALookupThatHangsHoldsNobodyBeyondHisDeadline) {
  auto let_go = std::make_shared<std::binary_semaphore>(0);
  auto lookups = std::make_shared<std::atomic<int>>(0);
  std::promise<void> told;
  {
    Resolver resolver(host("db.example"),
                      [let_go, lookups](const std::string&, std::uint16_t) -> Result<Endpoints> {
                        ++*lookups;
                        let_go->acquire();
                        return one_endpoint();
                      });
    const auto begin = BootClock::now();
    const auto first = resolver.resolve(begin + 30ms);
    ASSERT_FALSE(first);
    EXPECT_EQ(first.error().code(), Errc::kUnavailable);
    EXPECT_LT(BootClock::now() - begin, 5s);
    // Another question joins the lookup under way.
    resolver.refresh([&](const Result<Location>& found) {
      EXPECT_TRUE(found);
      told.set_value();
    });
    EXPECT_EQ(*lookups, 1);
  }
  // The resolver is gone; who asked is told all the same.
  let_go->release();
  told.get_future().wait();
}

}  // namespace
}  // namespace holdfast::stores::redis
