#include "src/session/async/gathered_handlers.h"

#include <functional>
#include <latch>
#include <memory>
#include <utility>
#include <vector>

#include <asio/bind_executor.hpp>
#include <asio/io_context.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <gtest/gtest.h>

#include "holdfast/asio.h"

namespace holdfast::session {
namespace {

using Seen = std::vector<int>;

// An asynchronous call that gets its outcome now.
template <typename Executor>
void complete(const Executor& executor, std::function<void(Result<int>)> handler, int outcome) {
  auto bound = asio::bind_executor(executor, std::move(handler));
  auto operation = std::make_shared<detail::Operation<int, decltype(bound)>>(std::move(bound));
  auto& receiver = *operation;
  receiver.complete(std::move(operation), outcome);
}

auto into(Seen& seen) {
  return [&seen](const Result<int>& got) { seen.push_back(got.value()); };
}

TEST(GatheredHandlersTest, AnExecutorIsPostedToOnceAndPostsTheOthersItself) {
  asio::io_context context;
  Seen seen;
  {
    const GatheredHandlers together;
    for (const int outcome : {1, 2, 3}) complete(context.get_executor(), into(seen), outcome);
    EXPECT_EQ(context.poll(), 0U);
    context.restart();
  }
  EXPECT_EQ(context.run_one(), 1U);
  EXPECT_EQ(seen, Seen{1});
  EXPECT_EQ(context.run(), 2U);
  EXPECT_EQ(seen, (Seen{1, 2, 3}));
}

TEST(GatheredHandlersTest, EachExecutorGetsItsOwn) {
  asio::io_context one;
  asio::io_context other;
  Seen ones;
  Seen others;
  {
    const GatheredHandlers together;
    for (const int outcome : {1, 2, 3}) {
      complete(one.get_executor(), into(ones), outcome);
      complete(asio::make_strand(other), into(others), outcome);
    }
  }
  EXPECT_EQ(one.run(), 3U);
  EXPECT_EQ(ones, (Seen{1, 2, 3}));
  other.run();
  EXPECT_EQ(others, (Seen{1, 2, 3}));
}

TEST(GatheredHandlersTest, MoreExecutorsThanAreComparedGetAllOfTheirs) {
  std::vector<std::unique_ptr<asio::io_context>> contexts;
  std::vector<Seen> seen(3 * GatheredHandlers::kCompared);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    contexts.push_back(std::make_unique<asio::io_context>());
  }
  {
    const GatheredHandlers together;
    for (const int outcome : {1, 2}) {
      for (std::size_t i = 0; i < seen.size(); ++i) {
        complete(contexts[i]->get_executor(), into(seen[i]), outcome);
      }
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    contexts[i]->run();
    EXPECT_EQ(seen[i].size(), 2U) << "executor " << i;
  }
}

TEST(GatheredHandlersTest, AHandlerMayWaitForTheOthers) {
  asio::thread_pool pool(2);
  std::latch other_ran(1);
  {
    const GatheredHandlers together;
    complete(pool.get_executor(), [&](const Result<int>&) { other_ran.wait(); }, 1);
    complete(pool.get_executor(), [&](const Result<int>&) { other_ran.count_down(); }, 2);
  }
  pool.join();
  EXPECT_TRUE(other_ran.try_wait());
}

TEST(GatheredHandlersTest, AContextThatEndsDropsThemAll) {
  const auto kept = std::make_shared<int>(0);
  {
    asio::io_context context;
    const GatheredHandlers together;
    for (const int outcome : {1, 2, 3}) {
      complete(asio::make_strand(context), [kept](const Result<int>&) { ++*kept; }, outcome);
      complete(context.get_executor(), [kept](const Result<int>&) { ++*kept; }, outcome);
    }
  }
  EXPECT_EQ(*kept, 0);
  EXPECT_EQ(kept.use_count(), 1);
}

TEST(GatheredHandlersTest, WithoutOneAHandlerIsPostedAtOnce) {
  asio::io_context context;
  Seen seen;
  complete(context.get_executor(), into(seen), 7);
  EXPECT_EQ(context.run(), 1U);
  EXPECT_EQ(seen, Seen{7});
}

}  // namespace
}  // namespace holdfast::session
