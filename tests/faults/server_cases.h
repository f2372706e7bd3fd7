// A client of a store on one server dies, is cut off, comes in a crowd or has its clock set: the
// same demands on each such store, seen through the public library.
//
// A test starts the server, and calls these with its URL or with clients of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/faults/client_side.h"
#include "tests/faults/process_harness.h"
#include "tests/support/clock_shift.h"

namespace holdfast::faults {

inline Lease hold_for(const Client& client, const std::string& name, milliseconds ttl) {
  auto lease = client.mutex(name).acquire({.wait = kLong, .ttl = ttl});
  if (!lease) throw std::runtime_error(lease.error().message());
  return *std::move(lease);
}

inline bool nobody_holds(const Client& client, const std::string& name) {
  const auto info = client.inspect(name);
  return info && (!*info || (*info)->holders.empty());
}

// Holders of it as the store knows them.
inline std::size_t holders_of(const Client& client, const std::string& name) {
  const auto info = client.inspect(name).value();
  return info ? info->holders.size() : 0;
}

// From `begin` to `end` the holder cannot reach the server, for longer than its lease: it is told
// first, and its late release frees nothing.
template <typename Begin, typename End>
void expect_told_before_another_holds(const Client& one, const Client& two, Begin begin, End end) {
  Lease lease = hold_for(one, "a", 1s);
  auto waiting = wait_for(two, "a");
  begin();
  EXPECT_TRUE(fires(lease.lost()));
  const auto told = base::BootClock::now();
  EXPECT_FALSE(lease.held());
  end();
  auto got = waiting.get();
  const auto granted = base::BootClock::now();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_LT(told, granted);
  EXPECT_GT(got->token(), lease.token());
  EXPECT_FALSE(lease.release()) << "a zombie's release";
  EXPECT_TRUE(got->renew());
  EXPECT_EQ(holders_of(two, "a"), 1U);
}

// kill -9 of the holder, with a waiter of each of ten clients behind it.
inline void expect_ten_waiters_to_follow_a_killed_holder(const std::string& url) {
  ActorProcess holder(url);
  ASSERT_EQ(holder.ask("acquire a 1000").word, "granted");
  std::vector<Client> clients;
  std::vector<std::future<Result<Lease>>> waiting;
  for (int i = 0; i < 10; ++i) clients.push_back(connect(url));
  for (const Client& client : clients) waiting.push_back(wait_for(client, "a"));
  holder.kill();
  const auto killed = base::BootClock::now();
  Token last;
  for (auto& each : waiting) {
    auto got = each.get();
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_GT(got->token(), last);
    last = got->token();
    expect_released(*got);
  }
  EXPECT_LT(base::BootClock::now() - killed, 1s + kBusyMachine);
}

// Races at the server are not the users' to see.
inline void expect_32_processes_to_see_no_error(const std::string& url) {
  std::vector<std::unique_ptr<ActorProcess>> crowd;
  for (int i = 0; i < 32; ++i) crowd.push_back(std::make_unique<ActorProcess>(url));
  for (const auto& each : crowd) each->send("churn a 10");
  for (const auto& each : crowd) {
    const Line done = each->answer(kLong);
    EXPECT_EQ(done.word, "churned") << done.get("text");
  }
  EXPECT_TRUE(nobody_holds(connect(url), "a"));
}

inline void expect_a_clients_clock_to_change_nothing(const std::string& url) {
  const support::ClockShift clock;
  ActorOptions options;
  options.clock_file = clock.path();
  ActorProcess actor(options);
  ASSERT_EQ(actor.ask("connect " + url).word, "ok");
  ASSERT_EQ(actor.ask("acquire a 2000").word, "granted");
  for (const char* jump : {"3600000000000", "-7200000000000"}) {
    const Line jumped = actor.ask(std::string("jump ") + jump);
    EXPECT_GT(std::abs(jumped.number("seconds")), 3000) << "the clock has not jumped";
    // Ahead it may have been suspended: the lease is in doubt until its next renewal.
    EXPECT_NE(jumped.get("state"), "kLost");
    EXPECT_EQ(actor.ask("renew").word, "ok");
    EXPECT_EQ(actor.ask("state").get("state"), "kHeld");
  }
  const Client other = connect(url);
  EXPECT_FALSE(*other.mutex("a").try_acquire());
  EXPECT_EQ(actor.ask("release").word, "ok");
}

}  // namespace holdfast::faults
