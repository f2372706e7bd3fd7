#include "src/base/wait_word.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::base {
namespace {

using namespace std::chrono_literals;

TEST(WaitWordTest, BitsAreSeenAndStay) {
  WaitWord word;
  EXPECT_EQ(word.get(), 0U);
  EXPECT_EQ(word.set(1), 0U);
  EXPECT_EQ(word.set(2), 1U);
  EXPECT_EQ(word.get(), 3U);
  word.wait(1);  // It is not that any more.
}

TEST(WaitWordTest, ATimeThatIsOverWakes) {
  WaitWord word;
  const auto begun = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begun < 20ms) word.wait_for(0, 5ms);
  word.wait_for(0, 0ns);
  word.wait_for(0, -1s);
  EXPECT_EQ(word.get(), 0U);
}

// Each round is a chance to miss a wake-up: the waiter goes to sleep while the bit is set.
TEST(WaitWordTest, NoWakeUpIsLost) {
  constexpr int kRounds = 20'000;
  std::vector<std::unique_ptr<WaitWord>> words(kRounds);
  for (auto& word : words) word = std::make_unique<WaitWord>();
  std::vector<int> values(kRounds);
  std::atomic<int> at{0};
  std::thread setter([&] {
    for (int i = 0; i < kRounds; ++i) {
      while (at.load(std::memory_order_relaxed) < i) std::this_thread::yield();
      values[static_cast<std::size_t>(i)] = i + 1;
      words[static_cast<std::size_t>(i)]->set(4);
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    WaitWord& word = *words[static_cast<std::size_t>(i)];
    at.store(i, std::memory_order_relaxed);
    while (word.get() == 0) word.wait(0);
    ASSERT_EQ(values[static_cast<std::size_t>(i)], i + 1);
  }
  setter.join();
}

}  // namespace
}  // namespace holdfast::base
