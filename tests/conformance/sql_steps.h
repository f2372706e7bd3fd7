// Two promises of the stores on SQL servers about locks that change together.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/conformance/harness.h"

namespace holdfast::testing {

// Queues that have nothing to do with each other change in one commit: with a disk that takes
// milliseconds for each, a client with many contended locks would wait for nothing else.
inline void expect_shared_commits(Site& site, const std::function<std::int64_t()>& transactions) {
  constexpr int kLocks = 64;
  Client alice(site, "alice");
  Client bob(site, "bob");
  const auto held = [](int lock) { return AcquisitionId{1, static_cast<std::uint64_t>(lock) + 1}; };
  const auto next = [](int lock) { return AcquisitionId{2, static_cast<std::uint64_t>(lock) + 1}; };
  const auto name = [](int lock) { return "queue" + std::to_string(lock); };
  for (int lock = 0; lock < kLocks; ++lock) {
    ASSERT_TRUE(alice.acquire({name(lock), held(lock)}));
  }
  const auto before = transactions();
  std::vector<std::future<Result<AcquisitionState>>> waits;
  for (int lock = 0; lock < kLocks; ++lock) {
    waits.push_back(bob.start_acquire({name(lock), next(lock)}));
  }
  for (auto& wait : waits) {
    const auto state = wait.get();
    ASSERT_TRUE(state) << state.error().message();
    EXPECT_EQ(state->status, AcquisitionStatus::kWaiting);
  }
  std::vector<std::pair<std::string, AcquisitionId>> all;
  for (int lock = 0; lock < kLocks; ++lock) all.emplace_back(name(lock), held(lock));
  const auto released = alice.release_all(all);
  ASSERT_TRUE(released) << released.error().message();
  const auto used = transactions() - before;
  EXPECT_LT(used, kLocks) << "64 entries and 64 releases";
  for (int lock = 0; lock < kLocks; ++lock) {
    EXPECT_EQ(*(*released)[static_cast<std::size_t>(lock)], EndStatus::kReleased);
    const auto push = bob.inbox().next(next(lock));
    ASSERT_TRUE(push) << name(lock);
    EXPECT_EQ(push->kind, port::Push::Kind::kGranted);
  }
}

// One of several locks that are written together has changed since it was read. The others are
// written, and that one is read again.
inline void expect_no_hold_up(Site& site) {
  constexpr int kRounds = 40;
  Client alice(site, "alice");
  Client bob(site, "bob");
  std::uint64_t last = 0;
  const auto fresh = [&] { return AcquisitionId{3, ++last}; };
  for (const char* name : {"busy", "calm1", "calm2"}) ASSERT_TRUE(alice.acquire({name, fresh()}));
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::pair<std::string, AcquisitionId>> all;
    std::vector<std::future<Result<AcquisitionState>>> waits;
    // Two clients queue for one lock at once, one of them for two more.
    for (Client* client : {&bob, &alice}) {
      for (const char* name : {"busy", "calm1", "calm2"}) {
        if (client == &alice && name != std::string("busy")) continue;
        all.emplace_back(name, fresh());
        waits.push_back(client->start_acquire({name, all.back().second}));
      }
    }
    for (auto& wait : waits) {
      const auto state = wait.get();
      ASSERT_TRUE(state) << state.error().message();
      EXPECT_EQ(state->status, AcquisitionStatus::kWaiting);
    }
    for (const auto& [name, id] : all) {
      const auto ended = bob.cancel(name, id);
      ASSERT_TRUE(ended) << ended.error().message();
      EXPECT_EQ(*ended, EndStatus::kCancelled) << name;
    }
  }
  for (const char* name : {"busy", "calm1", "calm2"}) {
    const auto info = alice.inspect(name);
    ASSERT_TRUE(info && *info);
    EXPECT_EQ((*info)->holders.size(), 1U);
    EXPECT_TRUE((*info)->waiters.empty()) << name;
  }
}

}  // namespace holdfast::testing
