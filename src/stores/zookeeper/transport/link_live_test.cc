// The link's promises on a real server: whatever was asked is answered, once, and names of servers
// are not looked up for every request.
#include <dlfcn.h>
#include <netdb.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <zookeeper/zookeeper.h>

#include "src/stores/zookeeper/test_rig.h"
#include "src/stores/zookeeper/transport/link.h"
#include "tests/support/zookeeper_server.h"

// The thread sanitizer's own getaddrinfo is what keeps it from false reports about the C library.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HOLDFAST_KEEPS_GETADDRINFO
#endif
#endif

#ifndef HOLDFAST_KEEPS_GETADDRINFO
namespace {
std::atomic<int> g_lookups = 0;
}

// In the place of the C library's, also for the client library.
extern "C" __attribute__((visibility("default"))) int getaddrinfo(
    const char* node, const char* service, const addrinfo* hints,
    addrinfo** found) noexcept(false) {
  ++g_lookups;
  static const auto next =
      reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return next(node, service, hints, found);
}
#endif

namespace holdfast::stores::zookeeper::testing {
namespace {

// The client library's thread drops what it has not come to when it is told to end: now and then,
// so there are several.
TEST(ZookeeperLinkLiveTest, WhatIsUnderWayWhenItIsClosedIsAnswered) {
  HOLDFAST_NEEDS_ZOOKEEPER();
  constexpr int kLinks = 24;
  constexpr int kRequests = 100;
  support::ZookeeperServer server;
  HandLoop loop;
  int connected = 0;
  std::vector<std::shared_ptr<Link>> links;
  links.reserve(kLinks);
  for (int i = 0; i < kLinks; ++i) {
    links.push_back(Link::open({server.servers(), "", 30s}, loop, [&connected](LinkEvent event) {
      if (event == LinkEvent::kConnected) ++connected;
    }));
  }
  while (connected < kLinks) {
    ASSERT_TRUE(loop.wait_for_post());
    loop.run_one();
  }
  server.pause();
  int answered = 0;
  const auto count = Link::Done::always([&answered](const Reply& reply) {
    EXPECT_NE(reply.rc, ZOK);
    ++answered;
  });
  for (const auto& link : links) {
    for (int i = 0; i < kRequests; i += 2) {
      link->remove("/no-such-node", count);
      link->multi({{Step::Kind::kRemove, "/no-such-node"}, {Step::Kind::kSet, "/neither"}}, count);
    }
  }
  std::vector<std::thread> closing;
  closing.reserve(kLinks);
  for (const auto& link : links) closing.emplace_back([&link] { link->close(); });
  for (std::thread& each : closing) each.join();
  while (loop.run_one()) {
  }
  EXPECT_EQ(answered, kLinks * kRequests);
  server.resume();
}

#ifndef HOLDFAST_KEEPS_GETADDRINFO
TEST(ZookeeperLinkLiveTest, NamesOfServersAreNotLookedUpForEachRequest) {
  HOLDFAST_NEEDS_ZOOKEEPER();
  constexpr int kRequests = 500;
  support::ZookeeperServer server;
  HandLoop loop;
  bool connected = false;
  const auto link = Link::open({server.servers(), "", 30s}, loop, [&connected](LinkEvent event) {
    connected = connected || event == LinkEvent::kConnected;
  });
  const auto run_until = [&loop](const auto& condition) {
    while (!condition()) {
      ASSERT_TRUE(loop.wait_for_post());
      loop.run_one();
    }
  };
  run_until([&] { return connected; });
  const BootInstant begin = BootClock::now();
  const int before = g_lookups;
  for (int i = 0; i < kRequests; ++i) {
    bool answered = false;
    link->get("/", nullptr, Link::Done::always([&answered](const Reply&) { answered = true; }));
    run_until([&] { return answered; });
  }
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(BootClock::now() - begin).count();
  EXPECT_GT(before, 0);
  EXPECT_LE(g_lookups - before, seconds + 1);
}
#endif

}  // namespace
}  // namespace holdfast::stores::zookeeper::testing
