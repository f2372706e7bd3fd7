// A store counter over a counter that loses, delays, refuses and goes back.
#include "holdfast/ids/store_counter.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/local_mutex.h"
#include "src/ids/counters/over_native.h"
#include "src/port/native_counter.h"

namespace holdfast::ids {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kGreatest = std::numeric_limits<std::int64_t>::max();

// The counter on the server, which all connections share.
struct Server {
  base::LocalMutex mutex;
  std::uint64_t at = 0;
  std::uint64_t last = kGreatest;
  std::string forgets{};
  bool caches = false;
  int requests = 0;
  std::function<Result<void>(bool raised)> fault{};  // Before and after a change.
};

class Connection final : public port::NativeCounter {
 public:
  explicit Connection(Server& server) : server_(server) {}

  Result<Taken> take(std::uint32_t count, base::BootInstant) override {
    const base::LocalLock lock(server_.mutex);
    ++server_.requests;
    for (const bool raised : {false, true}) {
      if (raised && server_.last - server_.at < count) return Error(Errc::kUnsupported, "the end");
      if (raised) server_.at += count;
      if (!server_.fault) continue;
      if (auto good = server_.fault(raised); !good) return good.error();
    }
    Taken taken{.counter = server_.at};
    for (std::uint64_t i = count; i > 0; --i) taken.numbers.push_back(server_.at - i + 1);
    return taken;
  }
  std::string forgets() const override { return server_.forgets; }
  bool caches() const override { return server_.caches; }

 private:
  Server& server_;
};

class StoreCounterTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<StoreCounter>> open(const StoreCounterOptions& options = {}) {
    return StoreCounterOverNative::open(std::make_unique<Connection>(server_), "orders", options);
  }
  static std::vector<std::uint64_t> take(StoreCounter& ids, int count) {
    std::vector<std::uint64_t> numbers;
    for (int i = 0; i < count; ++i) {
      const auto id = ids.next();
      EXPECT_TRUE(id) << id.error();
      if (id) numbers.push_back(id->number());
    }
    return numbers;
  }
  // nullopt: it gave a number.
  static std::optional<Errc> code_of(StoreCounter& ids) {
    const auto id = ids.next();
    return id ? std::nullopt : std::optional(id.error().code());
  }

  Server server_;
};

TEST_F(StoreCounterTest, AskOnceForEachBatch) {
  const auto ids = *open({.batch = 3});
  EXPECT_THAT(take(*ids, 4), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(server_.requests, 2);
  const auto other = *open();
  EXPECT_THAT(take(*other, 2), ElementsAre(7, 8));
  EXPECT_THAT(take(*ids, 3), ElementsAre(5, 6, 9));
}

TEST_F(StoreCounterTest, ALostReplyIsAGap) {
  const auto ids = *open({.batch = 10});
  server_.fault = [](bool raised) {
    return raised ? Result<void>(Error(Errc::kOutcomeUnknown, "no answer")) : Result<void>();
  };
  EXPECT_EQ(code_of(*ids), Errc::kUnavailable);
  server_.fault = nullptr;
  EXPECT_THAT(take(*ids, 2), ElementsAre(11, 12));
}

TEST_F(StoreCounterTest, ACounterThatWentBackEndsTheObject) {
  const auto ids = *open({.batch = 5});
  const auto large = *open({.batch = 1'000});
  take(*ids, 5);
  take(*large, 1'000);
  server_.at = 3;
  const auto lost = ids->next();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code(), Errc::kCorruptState);
  EXPECT_THAT(lost.error().message(), HasSubstr("it was at 5"));
  // Its batch ends above all that it has seen, and begins below.
  server_.at = 100;
  EXPECT_EQ(code_of(*large), Errc::kCorruptState);
  server_.at = 100'000;
  EXPECT_EQ(code_of(*ids), Errc::kCorruptState) << "an ended object goes on";
  EXPECT_THAT(take(**open(), 1), ElementsAre(100'001));
}

TEST_F(StoreCounterTest, LowerNumbersOfACacheAreLeftOut) {
  struct Pooled final : port::NativeCounter {
    Result<Taken> take(std::uint32_t, base::BootInstant) override {
      // Two connections with ten numbers each; the counter itself stands behind both.
      const std::vector<std::vector<std::uint64_t>> answers{
          {1, 2}, {11, 12}, {3, 4}, {13, 14}, {15, 16}};
      const std::uint64_t counter = at_ < 4 ? 20 : 10;  // In the end somebody sets it back.
      return Taken{answers.at(at_++), counter};
    }
    std::string forgets() const override { return {}; }
    bool caches() const override { return true; }
    std::size_t at_ = 0;
  };
  const auto ids = *StoreCounterOverNative::open(std::make_unique<Pooled>(), "x", {.batch = 2});
  EXPECT_THAT(take(*ids, 6), ElementsAre(1, 2, 11, 12, 13, 14));
  EXPECT_EQ(code_of(*ids), Errc::kCorruptState);
  EXPECT_EQ(ids->guarantees().order, IdOrder::kObject);
}

TEST_F(StoreCounterTest, TheLastNumbersComeOneByOne) {
  server_.at = kGreatest - 2;
  const auto ids = *open({.batch = 10});
  EXPECT_THAT(take(*ids, 2), ElementsAre(kGreatest - 1, kGreatest));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(code_of(*ids), Errc::kUnsupported);
}

TEST_F(StoreCounterTest, NoNumberIsAboveWhatABigintHolds) {
  server_.at = kGreatest;
  server_.last = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(code_of(**open()), Errc::kUnsupported);
}

TEST_F(StoreCounterTest, AnErrorIsToldToThoseWhoWaitedForIt) {
  const auto ids = *open({.batch = 2});
  int calls = 0;
  server_.fault = [&calls](bool) {
    ++calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return Error(Errc::kUnavailable, "it is away");
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&ids] { EXPECT_EQ(code_of(*ids), Errc::kUnavailable); });
  }
  threads.clear();
  EXPECT_LT(calls, 8) << "each waited for a try of its own";
  server_.fault = nullptr;
  EXPECT_THAT(take(*ids, 1), ElementsAre(1));
}

TEST_F(StoreCounterTest, ThreadsOfTwoObjectsNeverGetANumberTwice) {
  const std::array objects{*open({.batch = 7}), *open()};
  std::array<std::vector<std::uint64_t>, 4> given;
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < given.size(); ++t) {
      threads.emplace_back([&mine = given[t], &ids = *objects[t % 2]] { mine = take(ids, 5'000); });
    }
  }
  std::vector<std::uint64_t> all;
  for (const auto& mine : given) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST_F(StoreCounterTest, AForkedChildGetsNothing) {
  auto ids = *open({.batch = 10});
  take(*ids, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool closed = code_of(*ids) == Errc::kClosed;
    ids.reset();
    ::_exit(closed ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_THAT(take(*ids, 1), ElementsAre(2));
}

TEST_F(StoreCounterTest, GuaranteesAreThoseOfTheStoreAndTheBatch) {
  EXPECT_EQ((*open())->guarantees().order, IdOrder::kCounter);
  EXPECT_EQ((*open({.batch = 2}))->guarantees().order, IdOrder::kObject);
  EXPECT_EQ((*open())->guarantees().unique_by, UniqueBy::kCounter);
  server_.forgets = "it answers before it has written";
  EXPECT_EQ((*open())->guarantees().forgets, server_.forgets);
  const auto refused = open({.require_durable = true});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kUnsupported);
  EXPECT_THAT(refused.error().message(), HasSubstr(server_.forgets));
}

TEST_F(StoreCounterTest, OptionsOutOfBoundsAreRefused) {
  for (const StoreCounterOptions& bad :
       {StoreCounterOptions{.batch = 0}, StoreCounterOptions{.batch = 10'001},
        StoreCounterOptions{.request_timeout = std::chrono::milliseconds(0)}}) {
    EXPECT_EQ(open(bad).error().code(), Errc::kInvalidArgument);
  }
  EXPECT_EQ(StoreCounter::create("redis://localhost", "x", kGreatest + 1).error().code(),
            Errc::kInvalidArgument);
}

TEST(StoreCounterOfOtherStoresTest, IsRefusedByName) {
  for (const char* url : {"memory:", "sqlite:///nowhere/x.db", "etcd://127.0.0.1:1"}) {
    const auto opened = StoreCounter::open(url, "orders");
    ASSERT_FALSE(opened) << url;
    EXPECT_EQ(opened.error().code(), Errc::kUnsupported);
    EXPECT_THAT(opened.error().message(), HasSubstr("segments"));
  }
  EXPECT_EQ(StoreCounter::open("redis://127.0.0.1:1?ns=a", "x").error().code(),
            Errc::kInvalidArgument);
  EXPECT_EQ(StoreCounter::create("redis://127.0.0.1:1", "").error().code(), Errc::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast::ids
