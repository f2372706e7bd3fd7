#include "src/session/loop/event_loop.h"

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/eventually.h"

namespace holdfast::session {
namespace {

using base::WaitWord;
using std::chrono::milliseconds;
using support::eventually;

// Asks the loop for an answer and waits for it; the thread that gave it.
std::thread::id ask(EventLoop& loop) {
  struct Answer {
    WaitWord word;
    std::thread::id given_on;
  };
  const auto answer = std::make_shared<Answer>();
  loop.post([&loop, answer] {
    answer->given_on = std::this_thread::get_id();
    loop.answer([answer] { answer->word.set(1); });
  });
  while (answer->word.get() == 0) loop.wait(answer->word, 0);
  return answer->given_on;
}

// Whether the caller's own thread gives an answer in the end. A busy machine may take the processor
// from a caller for as long as the loop is lent.
bool is_lent(EventLoop& loop) {
  for (int i = 0; i < 100'000; ++i) {
    if (ask(loop) == std::this_thread::get_id()) return true;
  }
  return false;
}

// Posts a task and waits for it otherwise; the thread that ran it.
std::thread::id runner_of(EventLoop& loop) {
  std::promise<std::thread::id> ran;
  loop.post([&] { ran.set_value(std::this_thread::get_id()); });
  return ran.get_future().get();
}

TEST(EventLoopTest, ALoneCallerRunsTheLoopItself) {
  EventLoop loop([] {});
  EXPECT_NE(ask(loop), std::this_thread::get_id()) << "a caller that comes once";
  EXPECT_TRUE(is_lent(loop));
}

TEST(EventLoopTest, AWaitThatIsLongLeavesTheLoopToItsThread) {
  EventLoop loop([] {});
  ASSERT_TRUE(is_lent(loop));
  WaitWord word;
  std::thread other([&] {
    // The first may find the waiting caller's thread, which runs the loop for a moment.
    EXPECT_TRUE(eventually([&] { return runner_of(loop) != std::this_thread::get_id(); }));
    word.set(1);
  });
  while (word.get() == 0) loop.wait(word, 0);
  other.join();
}

TEST(EventLoopTest, AWaitEndsByItsLimit) {
  EventLoop loop([] {});
  ASSERT_TRUE(is_lent(loop));
  WaitWord word;
  loop.wait(word, 0, milliseconds(5));
  EXPECT_EQ(word.get(), 0U);
  EXPECT_TRUE(is_lent(loop));
}

TEST(EventLoopTest, WhatNobodyWaitsForIsDoneByItsThread) {
  EventLoop loop([] {});
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(is_lent(loop));
    EXPECT_NE(runner_of(loop), std::this_thread::get_id());
  }
}

TEST(EventLoopTest, TheTimerFiresWhileNobodyRunsTheLoop) {
  std::promise<void> fired;
  EventLoop loop([&] { fired.set_value(); });
  ASSERT_TRUE(is_lent(loop));
  loop.arm(base::BootClock::now());
  fired.get_future().get();
}

TEST(EventLoopTest, AKeptLoopIsNeverLent) {
  EventLoop loop([] {});
  ASSERT_TRUE(is_lent(loop));
  loop.keep();
  for (int i = 0; i < 100; ++i) EXPECT_NE(ask(loop), std::this_thread::get_id());
}

TEST(EventLoopTest, StopsWhileTheLoopIsLent) {
  for (int round = 0; round < 20; ++round) {
    EventLoop loop([] {});
    ASSERT_TRUE(is_lent(loop));
    bool ran = false;
    loop.post([&] { ran = true; });
    loop.stop();
    EXPECT_TRUE(ran);
  }
}

TEST(EventLoopTest, StopsWhileACallerRunsTheLoop) {
  EventLoop loop([] {});
  ASSERT_TRUE(is_lent(loop));
  WaitWord word;
  std::thread closer([&] {
    loop.stop();
    word.set(1);
  });
  while (word.get() == 0) loop.wait(word, 0);
  closer.join();
}

// Two at a time would be seen here by the thread sanitizer, too.
TEST(EventLoopTest, TasksRunOneAtATimeInTheirOrder) {
  constexpr int kThreads = 4;
  constexpr int kTurns = 2'000;
  EventLoop loop([] {});
  int inside = 0;
  std::vector<int> done(kThreads);
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (int mine = 0; mine < kThreads; ++mine) {
    threads.emplace_back([&, mine] {
      // The first is alone for a part of the time.
      const int turns = mine == 0 ? kTurns : kTurns / 8;
      for (int turn = 0; turn < turns; ++turn) {
        loop.post([&, mine, turn] {
          if (++inside != 1 || done[static_cast<std::size_t>(mine)]++ != turn) wrong = true;
          --inside;
        });
        static_cast<void>(ask(loop));
        if (mine != 0 && turn % 50 == 0) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  loop.stop();
  EXPECT_FALSE(wrong);
  EXPECT_EQ(done, (std::vector<int>{kTurns, kTurns / 8, kTurns / 8, kTurns / 8}));
}

}  // namespace
}  // namespace holdfast::session
