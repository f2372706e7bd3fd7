#include "src/stores/redis/transport/batching.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/stores/redis/protocol/requests.h"

namespace holdfast::stores::redis {
namespace {

using base::BootInstant;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr BootInstant kNow{std::chrono::seconds(100)};
constexpr BootInstant kLater{std::chrono::seconds(200)};

// The waiting operations, and the groups in which they are sent. An operation is named by its lock.
class BatchingTest : public ::testing::Test {
 protected:
  using Groups = std::vector<std::vector<std::string>>;

  void wait(const ScriptCall& call, std::string name, BootInstant deadline = kLater) {
    auto operation = std::make_unique<Operation>();
    operation->command.wire = call.by_hash();
    operation->command.part = call.batch_part_of(operation->command.wire);
    operation->deadline = deadline;
    names_.emplace_back(operation.get(), std::move(name));
    waiting_.push(std::move(operation));
  }

  static port::AcquireRequest request_of(const std::string& name) {
    port::AcquireRequest request;
    request.name = name;
    request.id = {1, 2};
    request.issue = 7;
    request.ttl = std::chrono::seconds(30);
    request.waiter_ttl = std::chrono::seconds(5);
    request.may_wait = true;
    return request;
  }
  void acquire(const std::string& name, BootInstant deadline = kLater) {
    wait(requests_.acquire(request_of(name)), name, deadline);
  }
  void share(const std::string& name) {
    port::AcquireRequest request = request_of(name);
    request.mode = machine::Mode::shared();
    wait(requests_.acquire(request), name);
  }
  void end(const char* how, const std::string& name, BootInstant deadline = kLater) {
    wait(requests_.end(how, {name, {1, 2}, kLater, 7}), name, deadline);
  }

  Groups sent(bool join = true, std::size_t most = kMostInBatch) {
    Groups groups;
    while (!waiting_.empty()) {
      OperationList taken;
      take_next(waiting_, kNow, join, most, taken, late_);
      if (taken.empty()) continue;
      groups.push_back(names_in(taken));
      wire_.clear();
      append_request(wire_, taken);
      gone_.append(taken);
    }
    return groups;
  }

  std::vector<std::string> names_in(const OperationList& list) const {
    std::vector<std::string> names;
    for (const Operation* each = list.front(); each != nullptr; each = each->next) {
      for (const auto& [operation, name] : names_) {
        if (operation == each) names.push_back(name);
      }
    }
    return names;
  }

  const Requests requests_{"00000000c11e4701", nullptr};
  std::vector<std::pair<const Operation*, std::string>> names_;
  OperationList waiting_, late_, gone_;
  std::string wire_;  // The last request.
};

TEST_F(BatchingTest, ReleasesGoAheadOfAcquisitionsAndEachKindInItsOrder) {
  acquire("a");
  end("release", "b");
  acquire("c");
  end("release", "d");
  EXPECT_THAT(sent(), ElementsAre(ElementsAre("b", "d"), ElementsAre("a", "c")));
}

TEST_F(BatchingTest, NothingPassesWhatGoesAlone) {
  acquire("a");
  acquire("b");
  end("cancel", "a");
  end("release", "c");
  acquire("d");
  share("e");
  acquire("f");
  EXPECT_THAT(sent(), ElementsAre(ElementsAre("a", "b"), ElementsAre("a"), ElementsAre("c"),
                                  ElementsAre("d"), ElementsAre("e"), ElementsAre("f")));
}

TEST_F(BatchingTest, ARequestHoldsNoMoreThanItIsToldTo) {
  for (const char* name : {"a", "b", "c"}) acquire(name);
  EXPECT_THAT(sent(/*join=*/true, /*most=*/2),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("c")));
}

TEST_F(BatchingTest, ARequestHoldsSoManyAtMost) {
  for (std::size_t i = 0; i < 2 * kMostInBatch + 1; ++i) acquire("a");
  EXPECT_THAT(sent(), ElementsAre(SizeIs(kMostInBatch), SizeIs(kMostInBatch), SizeIs(1)));
}

TEST_F(BatchingTest, ARequestHoldsSoManyBytesAtMost) {
  port::AcquireRequest request = request_of("a");
  auto owner = std::make_shared<machine::OwnerInfo>();
  owner->reason = std::string(2000, 'x');
  request.owner = owner;
  for (int i = 0; i < 20; ++i) wait(requests_.acquire(request), "a");
  const Groups groups = sent();
  EXPECT_THAT(groups, SizeIs(2));
  EXPECT_LE(wire_.size(), kMostBatchBytes);
}

TEST_F(BatchingTest, WhatIsLateIsNotSentAndHoldsUpNobody) {
  end("cancel", "a", kNow);
  acquire("b", kNow);
  acquire("c");
  end("release", "d", kNow);
  acquire("e");
  EXPECT_THAT(sent(), ElementsAre(ElementsAre("c", "e")));
  EXPECT_THAT(names_in(late_), ElementsAre("a", "b", "d"));
}

TEST_F(BatchingTest, WhatIsToGoAloneIsNotJoined) {
  acquire("a");
  acquire("b");
  acquire("c");
  EXPECT_THAT(sent(/*join=*/false), ElementsAre(SizeIs(1), SizeIs(1), SizeIs(1)));
  acquire("d");
  acquire("e");
  waiting_.front()->alone = true;
  acquire("f");
  EXPECT_THAT(sent(), ElementsAre(ElementsAre("d"), ElementsAre("e", "f")));
}

TEST_F(BatchingTest, ALongQueueIsLookedThroughInPartsOnly) {
  for (std::size_t i = 0; i < kMostLookedThrough; ++i) acquire("a");
  end("release", "b");
  const Groups groups = sent();
  EXPECT_THAT(groups.front(), SizeIs(kMostInBatch)) << "its release was out of sight";
  EXPECT_THAT(groups[1], ElementsAre("b"));
}

TEST_F(BatchingTest, AcquisitionsOfTestsTimeAreNotJoined) {
  const Requests timed("00000000c11e4701", [] { return machine::Instant(); });
  wait(timed.acquire(request_of("a")), "a");
  wait(timed.acquire(request_of("b")), "b");
  EXPECT_THAT(sent(), SizeIs(2));
}

TEST_F(BatchingTest, OnlyRequestsWithTheSameCommonWordAreJoined) {
  const Requests other("00000000c11e4702", nullptr);
  acquire("a");
  acquire("b");
  wait(other.acquire(request_of("c")), "c");
  acquire("d");
  EXPECT_THAT(sent(), ElementsAre(ElementsAre("a", "b"), ElementsAre("c"), ElementsAre("d")));
}

TEST_F(BatchingTest, TheRequestHasTheKeysThenTheClientThenWhatIsEachOnes) {
  end("release", "a");
  end("release", "bc");
  ASSERT_THAT(sent(), SizeIs(1));
  const std::string& hash = script(ScriptName::kEnd).sha1;
  const std::string id = "00000000000000010000000000000002";
  const std::vector<std::string_view> words{
      "EVALSHA",          hash,      "2", "hf1:{a}",          "hf1:{bc}", "00000000c11e4701", id,
      "0000000000000007", "release", id,  "0000000000000007", "release"};
  std::string expected;
  append_command(expected, words);
  EXPECT_EQ(wire_, expected);
}

TEST_F(BatchingTest, InAClusterTheKeysOfSeveralSlotsAreNotDeclaredAndEachHasItsTag) {
  const Requests ours("00000000c11e4701", nullptr, ScriptHost::kCluster);
  const auto release = [&](const std::string& name) {
    wait(ours.end("release", {name, {1, 2}, kLater, 7}), name);
  };
  ASSERT_NE(ours.slot_of("a"), ours.slot_of("b"));
  release("a");
  release("b");
  EXPECT_THAT(sent(), ElementsAre(ElementsAre("a", "b")));
  const std::string& hash =
      script(ScriptName::kEnd, ScriptClock::kServer, ScriptHost::kCluster).sha1;
  const std::string id = "00000000000000010000000000000002";
  const SlotTags tags;
  const std::string first = tags.of(ours.slot_of("a"));
  const std::string second = tags.of(ours.slot_of("b"));
  const std::vector<std::string_view> words{"EVALSHA",
                                            hash,
                                            "0",
                                            "00000000c11e4701",
                                            id,
                                            "0000000000000007",
                                            "release",
                                            id,
                                            "0000000000000007",
                                            "release",
                                            "hf1:{a}",
                                            "hf1:{b}",
                                            first,
                                            second};
  std::string expected;
  append_command(expected, words);
  EXPECT_EQ(wire_, expected);
  release("a");
  EXPECT_THAT(sent(), ElementsAre(ElementsAre("a")));
  EXPECT_EQ(wire_, ours.end("release", {"a", {1, 2}, kLater, 7}).by_hash()) << "one is declared";
}

TEST_F(BatchingTest, OneAloneIsSentAsItIs) {
  acquire("a");
  ASSERT_THAT(sent(), SizeIs(1));
  EXPECT_EQ(wire_, requests_.acquire(request_of("a")).by_hash());
}

TEST(AsksToGoAloneTest, OnlyTheWordOfTheScripts) {
  const auto refusal = [](std::string text) {
    Reply reply;
    reply.kind = Reply::Kind::kError;
    reply.text = std::move(text);
    return reply;
  };
  EXPECT_TRUE(asks_to_go_alone(refusal("HOLDFAST-ALONE ERR Script attempted to access ...")));
  EXPECT_FALSE(asks_to_go_alone(refusal("ERR Script attempted to access a non local key")))
      << "it may have written before";
  EXPECT_FALSE(asks_to_go_alone(Reply()));
}

TEST(ConcernsEachTest, OnlyRefusalsThatDoNotDependOnTheLock) {
  const auto refusal = [](std::string text) {
    Reply reply;
    reply.kind = Reply::Kind::kError;
    reply.text = std::move(text);
    return reply;
  };
  EXPECT_TRUE(concerns_each(refusal("NOSCRIPT No matching script. Please use EVAL.")));
  EXPECT_TRUE(concerns_each(refusal("READONLY You can't write against a read only replica.")));
  EXPECT_TRUE(concerns_each(refusal("BUSY Redis is busy running a script.")));
  EXPECT_TRUE(concerns_each(refusal("MOVED 3999 127.0.0.1:6381")));
  EXPECT_FALSE(concerns_each(refusal("ASK 3999 127.0.0.1:6381")));
  EXPECT_FALSE(concerns_each(refusal("TRYAGAIN Multiple keys request during rehashing of slot")));
  EXPECT_FALSE(concerns_each(refusal("NOPERM No permissions to access a key")));
  EXPECT_FALSE(concerns_each(refusal("CROSSSLOT Keys in request don't hash to the same slot")));
  EXPECT_FALSE(concerns_each(refusal("ERR Error running script: Script killed by user")));
  EXPECT_FALSE(concerns_each(Reply()));
}

}  // namespace
}  // namespace holdfast::stores::redis
