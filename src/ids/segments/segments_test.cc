#include "holdfast/ids/segments.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ids/record_text.h"
#include "src/ids/segments/counter.h"
#include "src/ids/segments/over_records.h"
#include "src/ids/segments/supply.h"
#include "src/ids/segments/testing/model_records.h"

namespace holdfast::ids {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ModelStore;

const std::string kName = "orders";

// A model behind a lock, as a store that may be away, slow or forgetful.
class SharedStore {
 public:
  std::unique_ptr<port::Records> client() { return std::make_unique<Client>(*this); }
  std::optional<CounterState> counter() {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, record] : model.records) {
      if (key.ends_with("/counter")) counter_key = key;
    }
    const auto found = model.records.find(counter_key);
    if (found == model.records.end()) return std::nullopt;
    return *CounterState::parse(found->second.text, "it");
  }

  void lose_counter() {
    counter();
    const std::lock_guard lock(mutex_);
    model.records.erase(counter_key);
  }

  // Requests from now on wait until open().
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    closed_ = false;
    changed_.notify_all();
  }
  void await_request() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }

  ModelStore model{1};  // While no request is under way.
  std::string counter_key{};
  std::atomic<bool> away = false;
  std::atomic<int> answers_to_lose = 0;
  std::string forgets{};

 private:
  class Client final : public port::Records {
   public:
    explicit Client(SharedStore& store) : store_(store), model_(store.model.client(1)) {}
    Result<std::optional<port::Record>> read(const std::string& key,
                                             base::BootInstant by) override {
      return store_.pass([&] { return model_->read(key, by); });
    }
    Result<std::optional<std::uint64_t>> create(const std::string& key, const std::string& text,
                                                base::BootInstant by) override {
      return store_.pass([&] { return model_->create(key, text, by); });
    }
    Result<std::optional<std::uint64_t>> replace(const std::string& key, std::uint64_t version,
                                                 const std::string& text,
                                                 base::BootInstant by) override {
      auto done = store_.pass([&] { return model_->replace(key, version, text, by); });
      if (store_.answers_to_lose > 0) {
        --store_.answers_to_lose;
        return Error(Errc::kOutcomeUnknown, "lost");
      }
      return done;
    }
    std::string forgets() const override { return store_.forgets; }

   private:
    SharedStore& store_;
    const std::unique_ptr<port::Records> model_;
  };

  template <typename Request>
  auto pass(Request&& request) -> decltype(request()) {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !closed_; });
    --waiting_;
    if (away) return Error(Errc::kUnavailable, "away");
    return request();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  int waiting_ = 0;
};

class SegmentsTest : public ::testing::Test {
 protected:
  static constexpr base::BootInstant kBy = base::BootInstant::max();

  void create(const SegmentsSpec& spec = {}) {
    ASSERT_TRUE(create_segments(*store_.client(), kName, spec, kBy));
  }
  static SegmentsOptions step(std::uint64_t numbers) {
    return {.step_min = numbers, .step_max = numbers};
  }
  Result<std::unique_ptr<Segments>> open(const SegmentsOptions& options = step(10)) {
    return SegmentsOverRecords::open(store_.client(), kName, options);
  }
  static Errc code_of(IdSource& ids) {
    const auto id = ids.next();
    EXPECT_FALSE(id) << id->number();
    return id ? Errc::kOutcomeUnknown : id.error().code();
  }

  SharedStore store_;
};

TEST_F(SegmentsTest, NumbersFollowEachOtherFromTheFirst) {
  create({.first = 7, .last = 1'000'000});
  const auto ids = *open();
  for (std::uint64_t number = 7; number < 500; ++number) ASSERT_EQ(ids->next()->number(), number);
  std::array<std::uint64_t, 35> batch{};
  ASSERT_EQ(*ids->next_batch(batch), batch.size());
  EXPECT_EQ(batch.front(), 500U);
  EXPECT_EQ(batch.back(), 534U);
  const IdGuarantees guarantees = ids->guarantees();
  EXPECT_EQ(guarantees.unique_by, UniqueBy::kCounter);
  EXPECT_EQ(guarantees.order, IdOrder::kObject);
}

TEST_F(SegmentsTest, WhatOneObjectLeavesIsAGap) {
  create();
  EXPECT_EQ((*open())->next()->number(), 1U);
  const std::uint64_t next = store_.counter()->next;
  EXPECT_GE(next, 11U);
  EXPECT_EQ((*open())->next()->number(), next);
}

TEST_F(SegmentsTest, ANamespaceIsMadeByCreateOnly) {
  for (int i = 0; i < 2; ++i) EXPECT_EQ(open().error().code(), Errc::kInvalidArgument);
  const auto client = store_.client();
  EXPECT_EQ(segments_status(*client, kName, kBy).error().code(), Errc::kInvalidArgument);
  EXPECT_EQ(set_segments_floor(*client, kName, 5, "why", kBy).error().code(),
            Errc::kInvalidArgument);
  EXPECT_TRUE(store_.model.records.empty());
  create();
  EXPECT_EQ(create_segments(*client, kName, {}, kBy).error().code(), Errc::kStoreInUse);
}

TEST_F(SegmentsTest, ANamespaceOfAnotherKindIsRefusedWithTheReason) {
  const auto client = store_.client();
  ASSERT_TRUE(client->create("ids/" + kName, RecordText("workers").text(), kBy));
  for (const Error& error : {open().error(), create_segments(*client, kName, {}, kBy).error(),
                             set_segments_floor(*client, kName, 5, "why", kBy).error()}) {
    EXPECT_EQ(error.code(), Errc::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr("'workers'"));
  }
}

TEST_F(SegmentsTest, AMissingCounterStopsAndIsNotMadeAnew) {
  create();
  const auto ids = *open(step(2));
  ASSERT_TRUE(ids->next());
  store_.lose_counter();
  Errc code = Errc::kOutcomeUnknown;
  for (int i = 0; i < 10 && code != Errc::kCorruptState; ++i) {
    const auto id = ids->next();
    if (!id) code = id.error().code();
  }
  EXPECT_EQ(code, Errc::kCorruptState);
  EXPECT_EQ(code_of(*ids), Errc::kCorruptState);
  EXPECT_EQ(open().error().code(), Errc::kCorruptState);
  EXPECT_FALSE(store_.counter());
  // An operator's floor is the way out.
  ASSERT_TRUE(set_segments_floor(*store_.client(), kName, 99, "lost", kBy));
  EXPECT_EQ((*open())->next()->number(), 100U);
  EXPECT_EQ(code_of(*ids), Errc::kCorruptState);
}

TEST_F(SegmentsTest, ADamagedCounterIsAnError) {
  create();
  store_.counter();
  store_.model.records[store_.counter_key].text[30] ^= 1;
  EXPECT_EQ(open().error().code(), Errc::kCorruptState);
  ASSERT_TRUE(set_segments_floor(*store_.client(), kName, 99, "damaged", kBy));
  EXPECT_TRUE(open());
}

// A is at 5,000 and B at 3,000. The store loses its data, so B would begin at 3,001.
TEST_F(SegmentsTest, ALowerCounterStopsEveryProcessUntilAFloor) {
  create();
  auto counting = [&](std::uint64_t at) {
    const auto records = store_.client();
    Counter counter(*records, *read_segments_head(*records, kName, kBy), [](auto) {});
    return counter.take(at, kBy)->end() - 1;
  };
  ASSERT_EQ(counting(3'000), 3'000U);
  const auto copy = store_.model.records;
  const auto records = store_.client();
  Counter a(*records, *read_segments_head(*records, kName, kBy), [](auto) {});
  ASSERT_EQ(a.take(2'000, kBy)->first, 3'001U);
  store_.model.records = copy;

  const auto lost = a.take(10, kBy);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code(), Errc::kCorruptState);
  EXPECT_FALSE(a.must_stop());
  const auto b = open();
  ASSERT_FALSE(b);
  EXPECT_EQ(b.error().code(), Errc::kCorruptState);
  EXPECT_THAT(b.error().message(), HasSubstr("5001"));
  EXPECT_TRUE(segments_status(*records, kName, kBy)->stopped);

  EXPECT_EQ(set_segments_floor(*records, kName, 2'999, "low", kBy).error().code(),
            Errc::kInvalidArgument);
  ASSERT_TRUE(set_segments_floor(*records, kName, 5'000, "restored a backup", kBy));
  EXPECT_EQ((*open())->next()->number(), 5'001U);
  EXPECT_EQ(a.take(10, kBy).error().code(), Errc::kCorruptState);
}

TEST_F(SegmentsTest, ALossIsWrittenDownOnceTheStoreIsBack) {
  create();
  const auto copy = store_.model.records;
  const auto records = store_.client();
  Counter counter(*records, *read_segments_head(*records, kName, kBy), [](auto) {});
  ASSERT_TRUE(counter.take(10, kBy));
  store_.model.records = copy;
  store_.answers_to_lose = 2;  // The request for a range, and the write that stops the counter.
  EXPECT_EQ(counter.take(10, kBy).error().code(), Errc::kCorruptState);
  ASSERT_TRUE(counter.must_stop());
  store_.away = true;
  EXPECT_EQ(counter.take(10, kBy).error().code(), Errc::kCorruptState);
  ASSERT_TRUE(counter.must_stop());
  store_.away = false;
  EXPECT_EQ(counter.take(10, kBy).error().code(), Errc::kCorruptState);
  EXPECT_FALSE(counter.must_stop());
  EXPECT_TRUE(store_.counter()->stopped);
}

TEST_F(SegmentsTest, ARangeWhoseReplyWasLostIsOursIfTheCounterSaysSo) {
  create();
  const auto ids = *open();
  store_.answers_to_lose = 1;
  EXPECT_EQ(ids->next()->number(), 1U);
}

TEST_F(SegmentsTest, ARangeBelowWhatWasOfferedIsThrownAway) {
  create();
  const auto head = *read_segments_head(*store_.client(), kName, kBy);
  Supply supply(store_.client(), head, step(10), [](auto) {});
  EXPECT_TRUE(supply.offer({100, 5}));
  while (supply.take(1).count != 0) {
  }
  EXPECT_FALSE(supply.offer({90, 5})) << "numbers would go back";
  EXPECT_EQ(supply.take(1).count, 0U);
  EXPECT_TRUE(supply.offer({105, 5}));
  EXPECT_EQ(supply.take(1).first, 105U);
}

TEST_F(SegmentsTest, TheLastNumberIsGivenOnce) {
  create({.first = 1, .last = 15});
  const auto ids = *open();
  std::array<std::uint64_t, 12> some{};
  ASSERT_EQ(*ids->next_batch(some), 12U);
  std::array<std::uint64_t, 12> more{};
  ASSERT_EQ(*ids->next_batch(more), 3U);
  EXPECT_EQ(more[2], 15U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(code_of(*ids), Errc::kUnsupported);
  EXPECT_EQ((*open())->next().error().code(), Errc::kUnsupported);
  EXPECT_EQ(store_.counter()->next, 16U);
}

TEST_F(SegmentsTest, TheGreatestNumberOfAllDoesNotWrap) {
  constexpr auto kLast = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  create({.first = kLast - 1, .last = kLast});
  const auto ids = *open({.step_min = 4'000'000'000, .step_max = 4'000'000'000});
  EXPECT_EQ(ids->next()->number(), kLast - 1);
  EXPECT_EQ(ids->next()->number(), kLast);
  EXPECT_EQ(code_of(*ids), Errc::kUnsupported);
}

TEST_F(SegmentsTest, AStoreThatIsAwayIsAnErrorUntilItIsBack) {
  create();
  const auto ids = *open();
  store_.away = true;
  EXPECT_EQ(code_of(*ids), Errc::kUnavailable);
  EXPECT_EQ(code_of(*ids), Errc::kUnavailable);
  store_.away = false;
  EXPECT_EQ(ids->next()->number(), 1U);
}

TEST_F(SegmentsTest, NextDoesNotWaitWhileARangeIsFetched) {
  create();
  const auto ids = *open({.step_min = 100, .step_max = 100, .fill_level = 0.1});
  ASSERT_EQ(ids->next()->number(), 1U);
  store_.close();
  std::uint64_t last = 1;
  while (last < 100) last = ids->next()->number();  // Ends although the store does not answer.
  store_.await_request();
  store_.open();
  EXPECT_EQ(ids->next()->number(), 101U);
}

TEST_F(SegmentsTest, AFullLevelFetchesWhenANumberIsAskedFor) {
  create();
  {
    const auto ids = *open({.step_min = 3, .step_max = 3, .fill_level = 1});
    for (std::uint64_t i = 1; i <= 7; ++i) EXPECT_EQ(ids->next()->number(), i);
  }
  EXPECT_EQ((*open())->next()->number(), 10U) << "the third range is left, and no fourth";
}

// A namespace that was made again has a counter of its own, which begins at 1.
TEST_F(SegmentsTest, AnObjectOfANamespaceThatIsGoneStops) {
  create();
  const auto ids = *open({.step_min = 10, .step_max = 10, .fill_level = 1});
  EXPECT_EQ(ids->next()->number(), 1U);
  store_.model.records.erase(SegmentsHead::key(kName));
  create();
  for (int i = 2; i <= 10; ++i) ASSERT_TRUE(ids->next());
  EXPECT_EQ(code_of(*ids), Errc::kCorruptState);
}

TEST_F(SegmentsTest, AClosedObjectGivesNothing) {
  create();
  const auto ids = *open();
  ASSERT_TRUE(ids->next());
  ids->close();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(code_of(*ids), Errc::kClosed);
}

TEST_F(SegmentsTest, CloseEndsACallThatWaits) {
  create();
  const auto ids = *open();
  store_.close();
  std::thread caller([&ids] { EXPECT_EQ(code_of(*ids), Errc::kClosed); });
  store_.await_request();
  ids->close();
  caller.join();
  store_.open();
}

TEST_F(SegmentsTest, AForkedChildGetsNothing) {
  create();
  auto ids = *open();
  ASSERT_EQ(ids->next()->number(), 1U);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto id = ids->next();
    std::array<std::uint64_t, 2> batch{};
    const auto some = ids->next_batch(batch);
    const bool closed =
        !id && id.error().code() == Errc::kClosed && !some && some.error().code() == Errc::kClosed;
    ids->close();
    ids.reset();
    ::_exit(closed ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(ids->next()->number(), 2U);
}

TEST_F(SegmentsTest, AStoreThatForgetsIsDeclaredOrRefused) {
  create();
  store_.forgets = "it answers before it has written";
  EXPECT_EQ((*open())->guarantees().forgets, store_.forgets);
  SegmentsOptions strict;
  strict.require_durable = true;
  const auto refused = open(strict);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kUnsupported);
  EXPECT_THAT(refused.error().message(), HasSubstr(store_.forgets));
}

TEST_F(SegmentsTest, OptionsOutOfBoundsAreRefused) {
  create();
  for (const SegmentsOptions& bad :
       {SegmentsOptions{.step_min = 0}, SegmentsOptions{.step_min = 2, .step_max = 1},
        SegmentsOptions{.step_max = std::uint64_t{1} << 32}, SegmentsOptions{.fill_level = 0},
        SegmentsOptions{.fill_level = 1.1}, SegmentsOptions{.wanted_duration = seconds(0)},
        SegmentsOptions{.request_timeout = seconds(-1)}}) {
    EXPECT_EQ(open(bad).error().code(), Errc::kInvalidArgument);
  }
  const auto client = store_.client();
  for (const char* name : {"", "a/b", "a b", "a\n"}) {
    EXPECT_EQ(create_segments(*client, name, {}, kBy).error().code(), Errc::kInvalidArgument);
  }
  EXPECT_EQ(create_segments(*client, "x", {.first = 2, .last = 1}, kBy).error().code(),
            Errc::kInvalidArgument);
}

TEST(SegmentsStepTest, ARangeLastsAboutAsLongAsWanted) {
  const SegmentsOptions options{.step_min = 10, .step_max = 100, .wanted_duration = seconds(10)};
  std::vector<std::uint64_t> steps{10};
  for (const int lasted : {1, 1, 1, 1, 9, 10, 20, 21, 21, 21, 21}) {
    steps.push_back(adapted_step(steps.back(), seconds(lasted), options));
  }
  EXPECT_THAT(steps, ElementsAre(10, 20, 40, 80, 100, 100, 100, 100, 50, 25, 12, 10));
}

TEST_F(SegmentsTest, ThreadsOfTwoObjectsNeverGetANumberTwice) {
  create();
  constexpr int kEach = 30'000;
  const std::array objects{*open({.step_min = 1, .step_max = 64}), *open(step(7))};
  std::array<std::vector<std::uint64_t>, 4> given;
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < given.size(); ++t) {
      threads.emplace_back([&mine = given[t], &ids = *objects[t % 2]] {
        for (int i = 0; i < kEach; ++i) mine.push_back(ids.next()->number());
      });
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

}  // namespace
}  // namespace holdfast::ids
