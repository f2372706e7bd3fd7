// Waiters that are killed at different places of a queue: the same demand on every store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/faults/process_harness.h"

namespace holdfast::faults {

struct Deaths {
  friend void PrintTo(const Deaths& deaths, std::ostream* out) { *out << deaths.name; }
  std::string name;
  std::vector<std::size_t> dead;  // Places in a queue of five.
};

inline auto all_places_of_death() {
  return testing::Values(Deaths{"Head", {0}}, Deaths{"Middle", {2}}, Deaths{"End", {4}},
                         Deaths{"HeadMiddleAndEnd", {0, 2, 4}});
}

// The others get the lock in order. The detour costs one lease, however many have died: theirs end
// together.
inline void expect_that_dead_waiters_cost_one_lease(const std::string& url,
                                                    const std::vector<std::size_t>& dead) {
  constexpr milliseconds kLease = 1s;
  ActorProcess holder(url);
  const Line held = holder.ask("acquire a 1000");
  ASSERT_EQ(held.word, "granted");
  std::vector<std::unique_ptr<ActorProcess>> queue;
  for (std::int64_t i = 0; i < 5; ++i) {
    queue.push_back(std::make_unique<ActorProcess>(url));
    ASSERT_EQ(queue.back()->queue_up("a", kLease).number("ahead"), i);
  }
  for (const std::size_t i : dead) queue[i].reset();
  const Line released = holder.ask("release");
  ASSERT_EQ(released.word, "ok");
  std::string token = held.get("token");
  std::int64_t freed = released.number("invoked");
  for (const auto& waiter : queue) {
    if (!waiter) continue;
    const Line granted = waiter->answer();
    ASSERT_EQ(granted.word, "granted") << granted.get("text");
    EXPECT_GE(granted.number("at"), freed) << "out of order";
    EXPECT_LE(granted.number("at") - released.number("invoked"), ns(kLease + 1s));
    EXPECT_GT(granted.get("token"), token);
    token = granted.get("token");
    const Line done = waiter->ask("release");
    ASSERT_EQ(done.word, "ok") << done.get("text");
    freed = done.number("invoked");
  }
}

}  // namespace holdfast::faults
