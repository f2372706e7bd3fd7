#include "src/session/loop/event_loop.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/eventually.h"

namespace holdfast::session {
namespace {

using base::WaitWord;
using std::chrono::milliseconds;
using support::eventually;

// By then a caller that waits is asleep in the loop; nothing tells of it.
constexpr milliseconds kAsleep(2);
constexpr std::chrono::seconds kLoopPatience(60);

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

// Posts a task and waits for it without running the loop; the thread that ran it.
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
  std::thread other([&, caller = std::this_thread::get_id()] {
    // The caller's thread may run the loop for a moment.
    EXPECT_TRUE(eventually([&] { return runner_of(loop) != caller; }));
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
    std::promise<void> ran;
    loop.post([&] { ran.set_value(); });
    EXPECT_EQ(ran.get_future().wait_for(kLoopPatience), std::future_status::ready);
  }
}

TEST(EventLoopTest, TheTimerFiresWhileNobodyRunsTheLoop) {
  std::promise<void> fired;
  EventLoop loop([&] { fired.set_value(); });
  ASSERT_TRUE(is_lent(loop));
  loop.arm(base::BootClock::now());
  EXPECT_EQ(fired.get_future().wait_for(kLoopPatience), std::future_status::ready);
}

TEST(EventLoopTest, AKeptLoopIsNeverLent) {
  EventLoop loop([] {});
  ASSERT_TRUE(is_lent(loop));
  loop.keep();
  for (int i = 0; i < 100; ++i) EXPECT_NE(ask(loop), std::this_thread::get_id());
}

TEST(EventLoopTest, ACallerThatRunsTheLoopEndsItForOneThatKeepsIt) {
  for (int round = 0; round < 10; ++round) {
    EventLoop loop([] {});
    ASSERT_TRUE(is_lent(loop));
    WaitWord word;
    std::thread keeper([&, caller = std::this_thread::get_id()] {
      std::this_thread::sleep_for(kAsleep);
      loop.keep();
      EXPECT_NE(runner_of(loop), caller);
      word.set(1);
      loop.word_was_set();
    });
    while (word.get() == 0) loop.wait(word, 0);
    keeper.join();
  }
}

TEST(EventLoopTest, ACallerSeesWhatIsSetElsewhereThanOnTheLoop) {
  using std::chrono::steady_clock;
  EventLoop loop([] {});
  auto shortest = steady_clock::duration::max();
  // On a busy machine some rounds are late for other reasons.
  for (int round = 0; round < 50 && shortest >= milliseconds(10); ++round) {
    ASSERT_TRUE(is_lent(loop));
    WaitWord word;
    std::promise<steady_clock::time_point> set;
    std::thread other([&] {
      std::this_thread::sleep_for(kAsleep);
      set.set_value(steady_clock::now());
      word.set(1);
      loop.word_was_set();
    });
    while (word.get() == 0) loop.wait(word, 0);
    const auto end = steady_clock::now();
    other.join();
    shortest = std::min(shortest, end - set.get_future().get());
  }
  EXPECT_LT(shortest, milliseconds(10));
}

// Tasks that never end, for five seconds.
class Busy {
 public:
  explicit Busy(EventLoop& loop) : loop_(loop) { go_on(); }
  // Whether it went on until now.
  bool end() {
    stop_ = true;
    return eventually([&] { return over_.load(); }) && !too_long_;
  }

 private:
  void go_on() {
    too_long_ = too_long_ || std::chrono::steady_clock::now() > limit_;
    over_ = stop_ || too_long_;
    if (!over_) loop_.post([this] { go_on(); });
  }

  EventLoop& loop_;
  const std::chrono::steady_clock::time_point limit_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(5);
  std::atomic<bool> stop_{false}, too_long_{false}, over_{false};
};

TEST(EventLoopTest, ALoopThatIsNeverIdleGivesAnswers) {
  EventLoop loop([] {});
  Busy busy(loop);
  for (int i = 0; i < 50; ++i) ask(loop);
  EXPECT_TRUE(busy.end());
}

TEST(EventLoopTest, AWaitEndsByItsLimitWhileTheLoopIsNeverIdle) {
  EventLoop loop([] {});
  ASSERT_TRUE(is_lent(loop));
  Busy busy(loop);
  WaitWord word;
  loop.wait(word, 0, milliseconds(5));
  EXPECT_TRUE(busy.end());
}

std::atomic<bool> in_handler{false};
std::atomic<bool> loop_went_on{false};

TEST(EventLoopTest, AHandlerOfASignalKeepsNothingFromTheLoop) {
  in_handler = loop_went_on = false;
  struct sigaction slow = {};
  struct sigaction before = {};
  slow.sa_handler = [](int) {
    in_handler = true;
    const timespec moment{0, 1'000'000};
    for (int i = 0; i < 5'000 && !loop_went_on; ++i) ::nanosleep(&moment, nullptr);
    in_handler = false;
  };
  ASSERT_EQ(::sigaction(SIGUSR1, &slow, &before), 0);
  EventLoop loop([] {});
  ASSERT_TRUE(is_lent(loop));
  WaitWord word;
  std::thread other([&, caller = ::pthread_self()] {
    std::this_thread::sleep_for(kAsleep);
    ::pthread_kill(caller, SIGUSR1);
    EXPECT_TRUE(eventually([&] { return in_handler.load(); }));
    runner_of(loop);
    EXPECT_TRUE(in_handler);
    loop_went_on = true;
    word.set(1);
  });
  while (word.get() == 0) loop.wait(word, 0);
  other.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

// The caller would go on without a loop.
TEST(EventLoopDeathTest, WhatATaskThrowsDoesNotReachACaller) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        EventLoop loop([] {});
        is_lent(loop);
        loop.post([] { throw std::runtime_error("thrown by a task"); });
        WaitWord word;
        try {
          while (true) loop.wait(word, 0);
        } catch (const std::runtime_error&) {
          std::_Exit(0);
        }
      },
      "thrown by a task");
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
  bool ran = false;
  std::thread closer([&] {
    loop.post([&] { ran = true; });
    loop.stop();
    word.set(1);
  });
  while (word.get() == 0) loop.wait(word, 0);
  closer.join();
  EXPECT_TRUE(ran);
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
  threads.reserve(kThreads);
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
