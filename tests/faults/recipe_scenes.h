// The scenes that every recipe on a database plays beside a plain program, which locks by the
// classic statements.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/faults/client_side.h"
#include "tests/faults/process_harness.h"
#include "tests/support/fault_proxy.h"

namespace holdfast::faults {

// A session of another program.
class PlainProgram {
 public:
  virtual ~PlainProgram() = default;
  virtual bool try_lock(const std::string& name) = 0;  // Without waiting.
  virtual bool unlock(const std::string& name) = 0;    // False: it did not have it.
};

struct RecipePlace {
  std::string url;  // With session=, no longer than some seconds.
  milliseconds session;
  std::function<std::unique_ptr<PlainProgram>()> another;
};

// A thread whose exception fails the test.
inline std::thread start(std::function<void()> work) {
  return std::thread([work = std::move(work)] {
    try {
      work();
    } catch (const std::exception& failure) {
      ADD_FAILURE() << failure.what();
    }
  });
}

inline bool is_free(const Client& client, const std::string& name) {
  auto lease = client.mutex(name).try_acquire();
  EXPECT_TRUE(lease) << lease.error().message();
  if (!lease || !*lease) return false;
  expect_released(**lease);
  return true;
}

// Theirs first, then ours.
inline void exclude_each_other(const RecipePlace& place, const std::string& name) {
  const auto other = place.another();
  Client client = connect(place.url);
  ASSERT_TRUE(other->try_lock(name));
  EXPECT_FALSE(is_free(client, name));
  auto waiting = wait_for(client, name);
  EXPECT_EQ(waiting.wait_for(100ms), std::future_status::timeout);
  ASSERT_TRUE(other->unlock(name));
  auto lease = waiting.get();
  ASSERT_TRUE(lease) << lease.error().message();
  EXPECT_FALSE(other->try_lock(name));
  EXPECT_TRUE(lease->held());
  expect_released(*lease);
  EXPECT_TRUE(other->try_lock(name));
  EXPECT_FALSE(is_free(client, name));
  EXPECT_TRUE(other->unlock(name));
  EXPECT_TRUE(is_free(client, name));
}

// Another name, and another client of ours.
inline void a_lock_is_one_lock(const RecipePlace& place, const std::string& name,
                               const std::string& different) {
  const Client client = connect(place.url);
  const Client second = connect(place.url);
  Lease lease = hold(client, name);
  EXPECT_FALSE(is_free(client, name)) << "of one client, too";
  EXPECT_FALSE(is_free(second, name));
  EXPECT_TRUE(is_free(client, different));
  EXPECT_TRUE(is_free(second, different));
  const Token token = lease.token();
  expect_released(lease);
  EXPECT_GT(hold(second, name).token(), token);
}

inline void threads_take_turns(const RecipePlace& place, const std::string& name) {
  const Client client = connect(place.url);
  std::atomic<int> inside{0};
  int count = 0;  // Guarded by the lock under test and nothing else.
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.push_back(start([&] {
      for (int round = 0; round < 10; ++round) {
        const Lease lease = hold(client, name);
        EXPECT_EQ(inside.fetch_add(1), 0);
        ++count;
        inside.fetch_sub(1);
      }
    }));
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(count, 80);
}

// Each with a client of its own, and one plain program among them.
inline void processes_never_overlap(const RecipePlace& place, const std::string& name,
                                    int processes) {
  std::atomic<int> inside{0};
  std::atomic<int> turns{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < processes; ++i) {
    threads.push_back(start([&] {
      ActorProcess actor(place.url);
      const std::string ask =
          "acquire " + name + " " + std::to_string(place.session.count()) + " 60000";
      for (int round = 0; round < 4; ++round) {
        const Line granted = actor.ask(ask, kLong);
        ASSERT_EQ(granted.word, "granted") << granted.get("text");
        EXPECT_EQ(inside.fetch_add(1), 0);
        ++turns;
        std::this_thread::sleep_for(2ms);  // Long enough for the others to come.
        EXPECT_EQ(inside.fetch_sub(1), 1);
        const Line released = actor.ask("release", kLong);
        ASSERT_EQ(released.word, "ok") << released.get("text");
      }
    }));
  }
  std::thread plain = start([&] {
    const auto other = place.another();
    while (!over) {
      if (!other->try_lock(name)) continue;
      EXPECT_EQ(inside.fetch_add(1), 0);
      std::this_thread::sleep_for(2ms);
      EXPECT_EQ(inside.fetch_sub(1), 1);
      EXPECT_TRUE(other->unlock(name));
      std::this_thread::sleep_for(10ms);
    }
  });
  for (auto& thread : threads) thread.join();
  over = true;
  plain.join();
  EXPECT_EQ(turns, processes * 4);
}

// Its connection ends with it, or its lease runs out.
inline void a_killed_holder_holds_no_more(const RecipePlace& place, const std::string& name) {
  const auto other = place.another();
  ActorProcess holder(place.url);
  const std::string ask = "acquire " + name + " " + std::to_string(place.session.count());
  ASSERT_EQ(holder.ask(ask).word, "granted");
  EXPECT_FALSE(other->try_lock(name));
  holder.kill();
  EXPECT_TRUE(eventually([&] { return other->try_lock(name); }));
}

// A forked child inherits the connections: its end, and what it tries, leave the lock alone.
inline void a_forked_child_leaves_the_lock_alone(const RecipePlace& place,
                                                 const std::string& name) {
  const auto other = place.another();
  ActorProcess parent(place.url);
  const std::string ask = "acquire " + name + " " + std::to_string(place.session.count());
  ASSERT_EQ(parent.ask(ask).word, "granted");
  for (const char* end : {"exit", "_exit"}) {
    const Line child = parent.ask(std::string("fork-look ") + end, kLong);
    EXPECT_EQ(child.get("status"), "0");
    EXPECT_EQ(child.get("held"), "no");
    for (const char* call : {"renew", "release", "acquire", "inspect", "close"}) {
      EXPECT_EQ(child.get(call), "kClosed") << call;
    }
    EXPECT_EQ(child.get("own"), "ok") << "on a client of its own";
    EXPECT_EQ(parent.ask("renew").word, "ok");
    EXPECT_FALSE(other->try_lock(name));
  }
  EXPECT_EQ(parent.ask("release").word, "ok");
  EXPECT_TRUE(other->try_lock(name));
  EXPECT_TRUE(other->unlock(name));
}

// The lock is free after the holder's deadline, never before, and the holder knows when it wakes.
inline void a_paused_holder_is_told_first(const RecipePlace& place, const std::string& name) {
  const auto other = place.another();
  ActorProcess holder(place.url);
  const std::string ask = "acquire " + name + " " + std::to_string(place.session.count());
  ASSERT_EQ(holder.ask(ask).word, "granted");
  holder.stop();
  ASSERT_TRUE(eventually([&] { return other->try_lock(name); }));
  const std::int64_t taken = host_boot_ns();
  holder.resume();
  const Line state = holder.ask("state");
  EXPECT_EQ(state.get("held"), "no");
  EXPECT_LT(state.number("deadline"), taken);
  holder.ask("release");
  EXPECT_FALSE(is_free(connect(place.url), name)) << "a late release frees nobody else's lock";
  EXPECT_TRUE(other->unlock(name));
}

// The server grants, and its word is lost: whatever it has kept goes before the next try.
inline void a_lost_reply_leaves_nothing_behind(const RecipePlace& place, support::FaultProxy& proxy,
                                               const std::string& statement) {
  const auto other = place.another();
  Client client = connect(place.url, kLong);
  expect_released(*std::make_unique<Lease>(hold(client, "lost")));
  const int fault =
      proxy.add({.kind = support::Fault::Kind::kDropReplies, .containing = statement, .times = 1});
  Lease lease = hold(client, "lost");
  EXPECT_TRUE(proxy.wait_for_hits(fault));
  EXPECT_TRUE(lease.held());
  EXPECT_FALSE(other->try_lock("lost"));
  expect_released(lease);
  EXPECT_TRUE(other->try_lock("lost"));
  EXPECT_TRUE(other->unlock("lost"));
}

}  // namespace holdfast::faults
