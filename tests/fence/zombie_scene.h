// The scene that a fence is for, with real leases: a holder that is paused beyond its lease wakes
// up and writes, after the next holder has written.
#pragma once

#include <chrono>
#include <functional>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/lease.h"
#include "holdfast/mutex.h"

namespace holdfast::fence {

using GuardedWrite = std::function<Result<void>(const Token& token, int items)>;

// `write`: checks the token and stores `items` in one step of the resource. `read`: what is stored.
inline void play_zombie_scene(const GuardedWrite& write, const std::function<int()>& read,
                              const std::string& store = "memory:") {
  using namespace std::chrono_literals;
  auto client = Client::connect(store);
  ASSERT_TRUE(client.has_value()) << client.error().message();
  auto mutex = client->mutex("stock");

  // Not renewed: as a process that is stopped, or swapped out.
  auto paused = mutex.acquire({.wait = 60s, .ttl = 500ms, .auto_renew = false});
  ASSERT_TRUE(paused.has_value()) << paused.error().message();
  const auto first = write(paused->token(), 10);
  EXPECT_TRUE(first.has_value()) << first.error().message();

  auto next = mutex.acquire({.wait = 60s, .ttl = 60s});
  ASSERT_TRUE(next.has_value()) << next.error().message();
  EXPECT_FALSE(paused->held());
  for (const int items : {9, 8}) {  // More than once, with one token.
    const auto written = write(next->token(), items);
    EXPECT_TRUE(written.has_value()) << written.error().message();
  }

  const auto late = write(paused->token(), 10);
  ASSERT_FALSE(late.has_value()) << "the zombie's write was accepted";
  EXPECT_EQ(late.error().code(), Errc::kLost) << late.error().message();
  EXPECT_EQ(read(), 8);
}

}  // namespace holdfast::fence
