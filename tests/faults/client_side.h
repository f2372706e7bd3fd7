// The fault tests of the consensus stores do this through the public library.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "src/base/clock.h"
#include "tests/support/eventually.h"
#include "tests/support/fault_proxy.h"

namespace holdfast::faults {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using support::eventually;

constexpr milliseconds kLong = 60s;  // No answer may take so long; a machine may stand still.

// The URLs' connect_timeout is short, so on a busy machine a first try may come to nothing.
inline Client connect(const std::string& url, milliseconds request_timeout = 3s) {
  ClientOptions options;
  options.request_timeout = request_timeout;
  const auto until = base::BootClock::now() + kLong;
  auto client = Client::connect(url, options);
  while (!client && client.error().code() == Errc::kUnavailable &&
         base::BootClock::now() < until) {
    client = Client::connect(url, options);
  }
  if (!client) throw std::runtime_error(client.error().message());
  return *std::move(client);
}

inline Lease hold(const Client& client, const std::string& name) {
  auto lease = client.mutex(name).acquire({.wait = kLong});
  if (!lease) throw std::runtime_error(lease.error().message());
  return *std::move(lease);
}

// Returns once it stands in the queue.
inline std::future<Result<Lease>> wait_for(const Client& client, const std::string& name) {
  auto queued = std::make_shared<std::promise<void>>();
  auto in_queue = queued->get_future();
  auto waiting = std::async(std::launch::async, [&client, name, queued] {
    return client.mutex(name).acquire(
        {.wait = kLong, .on_queued = [queued](std::uint32_t) { queued->set_value(); }});
  });
  if (in_queue.wait_for(kLong) != std::future_status::ready) {
    throw std::runtime_error("it does not get into the queue");
  }
  return waiting;
}

inline void expect_released(Lease& lease) {
  const auto released = lease.release();
  EXPECT_TRUE(released) << released.error().message();
}

// A lease of its own needs neither its client nor its server: it is still there, with its token,
// for a client that has its id.
template <typename Kill, typename Start>
void expect_a_kept_lease_outlasts(const std::string& url, Kill kill, Start start) {
  const Client two = connect(url);
  Client one = connect(url);
  auto lease = one.mutex("kept").acquire({.wait = kLong, .ttl = 300s, .auto_renew = false});
  ASSERT_TRUE(lease) << lease.error().message();
  const std::string id = lease->id();
  const Token token = lease->token();
  lease->detach();
  EXPECT_TRUE(one.close());
  kill();
  start();
  EXPECT_TRUE(eventually([&] {
    const auto tried = two.mutex("kept").try_acquire();
    return tried && !*tried;
  })) << "the server is back, and the lock is not held";
  auto adopted = two.adopt(id);
  ASSERT_TRUE(adopted) << adopted.error().message();
  EXPECT_EQ(adopted->token(), token);
  expect_released(*adopted);
  EXPECT_GT(hold(two, "kept").token(), token);
}

// The request that gives a lease a life of its own arrives, its answer does not: the client finds
// out, and nobody else holds. `containing`: a text of that request.
inline void expect_a_lost_transfer_loses_nothing(const std::string& through,
                                                 const std::string& direct,
                                                 support::FaultProxy& way,
                                                 const std::string& containing) {
  const Client one = connect(through, 20s);
  const Client two = connect(direct, 20s);
  Lease first = hold(one, "a");
  expect_released(first);
  const int lost = way.add(
      {.kind = support::Fault::Kind::kDropReplies, .containing = containing, .times = 1});
  auto asked = std::async(std::launch::async, [&] {
    return one.mutex("a").acquire({.wait = kLong, .ttl = 120s, .auto_renew = false});
  });
  EXPECT_TRUE(way.wait_for_hits(lost));
  way.remove(lost);
  way.reset_all();
  auto lease = asked.get();
  ASSERT_TRUE(lease) << lease.error().message();
  EXPECT_FALSE(two.mutex("a").try_acquire().value());
  const auto info = two.inspect("a");
  ASSERT_TRUE(info && *info);
  EXPECT_EQ((*info)->holders.size(), 1U);
  EXPECT_TRUE((*info)->waiters.empty());
  expect_released(*lease);
  EXPECT_TRUE(two.mutex("a").try_acquire().value());
}

inline bool fires(std::stop_token token, milliseconds within = kLong) {
  auto fired = std::make_shared<std::promise<void>>();
  auto future = fired->get_future();
  const std::stop_callback note(std::move(token), [fired] { fired->set_value(); });
  return future.wait_for(within) == std::future_status::ready;
}

// A try on a stopped server ends within request_timeout and two seconds (to take back a possible
// grant), be it the first request or not; and nothing is left.
constexpr milliseconds kBusyMachine = 2s;
template <typename Stop, typename GoOn>
void expect_tries_in_time(const std::string& url, Stop stop, GoOn go_on) {
  constexpr milliseconds kRequest = 1s;
  const Client used = connect(url, kRequest);
  const Client fresh = connect(url, kRequest);
  ASSERT_TRUE(eventually([&] {
    auto lease = used.mutex("warm").try_acquire();
    return lease && *lease && (*lease)->release();
  }));
  stop();
  for (const Client& client : {used, fresh}) {
    const auto asked = base::BootClock::now();
    const auto tried = client.mutex("a").try_acquire();
    EXPECT_LT(base::BootClock::now() - asked, kRequest + 2s + kBusyMachine);
    ASSERT_FALSE(tried);
    const Errc code = tried.error().code();
    EXPECT_TRUE(code == Errc::kUnavailable || code == Errc::kOutcomeUnknown)
        << tried.error().message();
  }
  go_on();
  EXPECT_TRUE(eventually([&] {
    const auto lease = used.mutex("a").try_acquire();
    return lease && *lease;
  })) << "what came late holds for nobody";
}

// The server is away for longer than sessions and requests last: who waited goes on waiting, and is
// granted when it is back.
template <typename Kill, typename Start>
void expect_a_waiter_outlasts(const std::string& url, Kill kill, Start start) {
  Client one = connect(url, 2s);
  Client two = connect(url, 2s);
  const Lease lease = hold(one, "a");
  const Lease mark = hold(two, "mark");
  auto waiting = wait_for(two, "a");
  kill();
  EXPECT_TRUE(fires(lease.lost()));
  EXPECT_TRUE(fires(mark.lost()));
  // It asks anew in vain, and so does who comes behind it, who is told so later.
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(two.mutex("b").try_acquire());
  EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout);
  start();
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_TRUE(got->held());
}

// One holds and one waits while it happens: neither is harmed, and the waiter follows, all in that
// time.
template <typename Harm, typename Release>
void expect_no_lock_lost(const std::string& url, Harm harm, Release release, milliseconds within) {
  Client one = connect(url);
  Client two = connect(url);
  Lease lease = hold(one, "a");
  auto waiting = wait_for(two, "a");
  const auto harmed = base::BootClock::now();
  harm();
  EXPECT_TRUE(eventually([&] { return lease.renew().has_value(); }));
  EXPECT_TRUE(lease.held());
  EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout);
  const Token first = lease.token();
  release(lease);
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_LT(base::BootClock::now() - harmed, within);
  EXPECT_GT(got->token(), first);
}

}  // namespace holdfast::faults
