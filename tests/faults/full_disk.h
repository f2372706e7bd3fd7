// A server whose disk is full: the same demands on every store.
//
// Locks are held and waited for while it fills up. The server may go on without writing or stop
// itself; either way nobody holds beside another, no request hangs, and when there is room (and it
// was started again) locks go on.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "tests/faults/client_side.h"
#include "tests/support/small_disk.h"
#include "tests/support/temp_folder.h"

namespace holdfast::faults {

struct FullDiskServer {
  std::string address;                                         // host:port
  std::function<std::string(const std::string& session)> url;  // With sessions of that length.
  bool stops_itself = true;                                    // Rather than to go on unwritten.
  std::function<bool()> running;
  std::function<void()> start;       // Again, after it has stopped itself.
  std::function<std::string()> log;  // Its last output.
};

// Two seconds to take back what may have been granted, and as much for a busy machine.
constexpr milliseconds kBesidesTheRequest = 4s;

// Asks for other locks until the server has found out. Each answer comes in time.
inline Error first_refusal(const Client& client, milliseconds request_timeout) {
  const auto until = base::BootClock::now() + kLong;
  for (int i = 0; base::BootClock::now() < until; ++i) {
    const auto asked = base::BootClock::now();
    const auto tried = client.mutex("other " + std::to_string(i)).try_acquire();
    EXPECT_LT(base::BootClock::now() - asked, request_timeout + kBesidesTheRequest) << "it hangs";
    if (!tried) return tried.error();
  }
  throw std::runtime_error("the full disk is not noticed");
}

inline void expect_clear(const Error& error, const FullDiskServer& server) {
  EXPECT_TRUE(error.code() == Errc::kUnavailable || error.code() == Errc::kOutcomeUnknown)
      << error.message();
  EXPECT_NE(error.message().find(server.address), std::string::npos) << error.message();
  ::testing::Test::RecordProperty("refusal", error.message());
}

inline void make_room(support::SmallDisk& disk, const FullDiskServer& server) {
  // It refuses before it ends: room that is made between the two finds nobody to start again.
  if (server.stops_itself) {
    EXPECT_TRUE(eventually([&] { return !server.running(); })) << server.log();
  }
  disk.make_room();
  if (!server.running()) server.start();
}

// One client holds, one waits, and a third was refused.
struct HeldOnAFullDisk {
  Client holder, waiter, other;
  Lease lease;
  std::future<Result<Lease>> waiting;
};

inline HeldOnAFullDisk held_on_a_full_disk(support::SmallDisk& disk, const FullDiskServer& server,
                                           const std::string& session) {
  constexpr milliseconds kSoon = 3s;
  Client holder = connect(server.url(session), kSoon);
  Client waiter = connect(server.url("30s"), kSoon);
  Client other = connect(server.url("30s"), kSoon);
  Lease lease = hold(holder, "a");
  auto waiting = wait_for(waiter, "a");
  disk.fill();
  expect_clear(first_refusal(other, kSoon), server);
  return {holder, waiter, other, std::move(lease), std::move(waiting)};
}

// The lock of a holder that is told is nobody's until the server works again.
inline void expect_that_holders_are_told(support::SmallDisk& disk, const FullDiskServer& server) {
  auto [holder, waiter, other, lease, waiting] = held_on_a_full_disk(disk, server, "2s");
  EXPECT_TRUE(fires(lease.lost()));
  EXPECT_FALSE(lease.held());
  EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout) << "nothing can be granted";
  make_room(disk, server);
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_GT(got->token(), lease.token());
  EXPECT_FALSE(lease.release()) << "a zombie's release";
  EXPECT_TRUE(got->renew());
  EXPECT_TRUE(got->held());
  EXPECT_TRUE(other.mutex("b").acquire({.wait = kLong}));
}

// A client with a long session keeps the lock through it.
inline void expect_that_room_in_time_costs_no_lock(support::SmallDisk& disk,
                                                   const FullDiskServer& server) {
  auto [holder, waiter, other, lease, waiting] = held_on_a_full_disk(disk, server, "60s");
  EXPECT_TRUE(lease.held());
  make_room(disk, server);
  EXPECT_TRUE(eventually([&held = lease] { return held.renew().has_value(); })) << server.log();
  EXPECT_TRUE(lease.held());
  EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout) << "two hold";
  const Token first = lease.token();
  EXPECT_TRUE(eventually([&held = lease] { return held.release().has_value(); }));
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_GT(got->token(), first);
}

}  // namespace holdfast::faults
