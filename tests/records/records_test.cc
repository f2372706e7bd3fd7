// The records port on each store: what src/port/records.h promises.
#include "src/port/records.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/stores.h"
#include "src/client/ask.h"
#include "tests/records/place.h"
#include "tests/support/eventually.h"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;
using base::BootClock;
using port::Record;
using port::Records;
using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Version = std::optional<std::uint64_t>;

base::BootInstant soon() { return BootClock::now() + 20s; }

class RecordsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string why = no_place_because(); !why.empty()) GTEST_SKIP() << why;
    place_ = make_place(GetParam());
  }

  std::unique_ptr<Records> open(const std::string& query = {}) const {
    auto opened = client::open_records(place_->url(query));
    EXPECT_TRUE(opened) << opened.error();
    return opened ? *std::move(opened) : nullptr;
  }
  static Version create(Records& records, const std::string& key, const std::string& text) {
    auto made = records.create(key, text, soon());
    EXPECT_TRUE(made) << made.error();
    return made ? *made : std::nullopt;
  }
  static Version replace(Records& records, const std::string& key, std::uint64_t version,
                         const std::string& text) {
    auto changed = records.replace(key, version, text, soon());
    EXPECT_TRUE(changed) << changed.error();
    return changed ? *changed : std::nullopt;
  }
  static std::optional<Record> read(Records& records, const std::string& key) {
    auto found = records.read(key, soon());
    EXPECT_TRUE(found) << found.error();
    return found ? *found : std::nullopt;
  }
  static std::string text(Records& records, const std::string& key) {
    const auto found = read(records, key);
    return found ? found->text : "(nothing)";
  }

  std::unique_ptr<Place> place_;
};

TEST_P(RecordsTest, IsCreatedOnce) {
  const auto records = open();
  EXPECT_EQ(read(*records, "worker/1"), std::nullopt);
  EXPECT_EQ(replace(*records, "worker/1", 1, "x"), std::nullopt);
  EXPECT_EQ(replace(*records, "worker/1", 0, "x"), std::nullopt);
  EXPECT_EQ(read(*records, "worker/1"), std::nullopt);
  const auto version = create(*records, "worker/1", "first");
  ASSERT_TRUE(version);
  EXPECT_EQ(create(*records, "worker/1", "second"), std::nullopt);
  const auto found = read(*records, "worker/1");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "first");
  EXPECT_EQ(found->version, *version);
}

TEST_P(RecordsTest, IsReplacedAtTheNamedVersionOnly) {
  const auto records = open();
  const auto first = create(*records, "k", "1");
  ASSERT_TRUE(first);
  const auto second = replace(*records, "k", *first, "2");
  ASSERT_TRUE(second);
  EXPECT_NE(*second, *first);
  const std::vector<std::uint64_t> others = {*first, *second + 1, *second + 0x1'0000'0000, 0,
                                             ~std::uint64_t{0}};
  for (const std::uint64_t other : others) {
    EXPECT_EQ(replace(*records, "k", other, "late"), std::nullopt) << other;
  }
  EXPECT_EQ(text(*records, "k"), "2");
  const auto same = replace(*records, "k", *second, "2");  // The same text is a change, too.
  ASSERT_TRUE(same);
  EXPECT_NE(*same, *second);
  EXPECT_EQ(replace(*records, "k", *second, "late"), std::nullopt);
  EXPECT_EQ(read(*records, "k")->version, *same);
}

TEST_P(RecordsTest, IsSeenByOthersAtOnce) {
  if (place_->url() == "memory:") GTEST_SKIP() << "nobody else can find these records";
  const auto one = open();
  const auto other = open();
  auto version = create(*one, "k", "0");
  for (int i = 1; i <= 20; ++i) {
    ASSERT_TRUE(version);
    const auto found = read(*other, "k");
    ASSERT_TRUE(found);
    ASSERT_EQ(found->version, *version);
    version = replace(i % 2 == 0 ? *one : *other, "k", found->version, std::to_string(i));
    ASSERT_EQ(text(i % 2 == 0 ? *other : *one, "k"), std::to_string(i));
  }
}

TEST_P(RecordsTest, EachVersionIsReplacedByOneOfTheRacers) {
  constexpr int kRacers = 4;
  constexpr int kEach = 15;
  ASSERT_TRUE(create(*open(), "count", "0"));
  std::atomic<int> wins{0};
  std::vector<std::map<std::uint64_t, int>> won(kRacers);
  std::vector<std::thread> racers;
  for (int racer = 0; racer < kRacers; ++racer) {
    racers.emplace_back([this, &wins, &mine = won[static_cast<std::size_t>(racer)]] {
      const auto records = open();
      while (mine.size() < kEach) {
        const auto found = read(*records, "count");
        ASSERT_TRUE(found);
        const int next = std::stoi(found->text) + 1;
        if (!replace(*records, "count", found->version, std::to_string(next))) continue;
        ASSERT_TRUE(mine.emplace(found->version, next).second);
        ++wins;
      }
    });
  }
  for (std::thread& racer : racers) racer.join();
  std::map<std::uint64_t, int> all;
  for (const auto& mine : won) {
    for (const auto& [version, count] : mine) {
      EXPECT_TRUE(all.emplace(version, count).second) << "two have replaced " << version;
    }
  }
  EXPECT_EQ(wins, kRacers * kEach);
  EXPECT_EQ(text(*open(), "count"), std::to_string(kRacers * kEach));
}

TEST_P(RecordsTest, OneOfManyCreates) {
  std::atomic<int> made{0};
  std::vector<std::thread> racers;
  for (int racer = 0; racer < 6; ++racer) {
    racers.emplace_back([this, racer, &made] {
      const auto records = open();
      for (int i = 0; i < 5; ++i) {
        const std::string mine = std::to_string(racer);
        const std::string key = "k" + std::to_string(i);
        if (!create(*records, key, mine)) continue;
        ++made;
        EXPECT_EQ(text(*records, key), mine);
      }
    });
  }
  for (std::thread& racer : racers) racer.join();
  EXPECT_EQ(made, 5);
}

TEST_P(RecordsTest, TextsMayBeAnyBytes) {
  const auto records = open();
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::vector<std::string> texts = {"",
                                          all,
                                          std::string(Records::kLongestText, 'x'),
                                          std::string(5, '\0'),
                                          "a\nb\r\n\tc",
                                          "'\"\\`;--",
                                          "ünï ☃ 𝄞",
                                          "{\"a\": [1]}",
                                          std::string(Records::kLongestText, '\xff'),
                                          ""};
  auto version = create(*records, "k", texts.front());
  for (const std::string& each : texts) {
    ASSERT_TRUE(version);
    version = replace(*records, "k", *version, each);
    const auto found = read(*records, "k");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->text, each);
  }
  ASSERT_TRUE(create(*records, "long from the start", all + all));
  EXPECT_EQ(text(*records, "long from the start"), all + all);
}

TEST_P(RecordsTest, KeysMayLookLikeAnything) {
  const auto records = open();
  std::string long_utf8;
  while (long_utf8.size() + 2 <= Records::kLongestKey) long_utf8 += "é";
  const std::vector<std::string> keys = {"a",
                                         "A",
                                         "a/b",
                                         "a//b",
                                         "/a",
                                         "a/",
                                         ".",
                                         "..",
                                         "../a",
                                         "./a",
                                         "a/../b",
                                         "a*",
                                         "a?",
                                         "[a]",
                                         "{a}",
                                         "%",
                                         "%2F",
                                         "a%2Fb",
                                         "a b",
                                         " ",
                                         "'",
                                         "\"",
                                         "a'b",
                                         "\\",
                                         "a\\b",
                                         "hf1:{a}",
                                         "a:t",
                                         "$1",
                                         "?1",
                                         "@a",
                                         "#",
                                         "&",
                                         "+",
                                         "☃",
                                         "é",
                                         "e\u0301",
                                         std::string(Records::kLongestKey, 'k'),
                                         long_utf8,
                                         std::string(Records::kLongestKey, '/'),
                                         std::string(Records::kLongestKey - 1, 'k')};
  for (const std::string& key : keys) EXPECT_TRUE(create(*records, key, "text of " + key)) << key;
  for (const std::string& key : keys) {
    const auto found = read(*records, key);
    ASSERT_TRUE(found) << key;
    EXPECT_EQ(found->text, "text of " + key);
    EXPECT_TRUE(replace(*records, key, found->version, "new " + key)) << key;
  }
  for (const std::string& key : keys) EXPECT_EQ(text(*records, key), "new " + key);
}

TEST_P(RecordsTest, WhatIsTooLongOrNoKeyIsRefused) {
  const auto records = open();
  const auto code = [&](const std::string& key, const std::string& text) {
    const auto made = records->create(key, text, soon());
    return made ? std::string("made") : std::string(errc_name(made.error().code()));
  };
  for (const std::string& key :
       {std::string(Records::kLongestKey + 1, 'k'), std::string(), std::string("a\nb"),
        std::string("a\0b", 3), std::string("\xff")}) {
    EXPECT_EQ(code(key, ""), "kInvalidArgument");
    EXPECT_EQ(records->read(key, soon()).error().code(), Errc::kInvalidArgument);
  }
  EXPECT_EQ(code("k", std::string(Records::kLongestText + 1, 'x')), "kInvalidArgument");
  const auto spaced = open("ns=team");
  EXPECT_EQ(spaced->read(std::string(Records::kLongestKey - 4, 'k'), soon()).error().code(),
            Errc::kInvalidArgument);
  EXPECT_EQ(read(*spaced, std::string(Records::kLongestKey - 5, 'k')), std::nullopt);
  EXPECT_EQ(read(*records, "k"), std::nullopt);
}

TEST_P(RecordsTest, ATimeThatHasPassedChangesNothing) {
  const auto records = open();
  const auto version = create(*records, "k", "1");
  ASSERT_TRUE(version);
  const auto past = BootClock::now() - 1ms;
  EXPECT_EQ(records->replace("k", *version, "2", past).error().code(), Errc::kUnavailable);
  EXPECT_EQ(records->create("other", "2", past).error().code(), Errc::kUnavailable);
  EXPECT_EQ(records->read("k", past).error().code(), Errc::kUnavailable);
  EXPECT_EQ(text(*records, "k"), "1");
  EXPECT_EQ(read(*records, "other"), std::nullopt);
}

TEST_P(RecordsTest, NameSpacesAreApart) {
  const auto plain = open();
  const auto a = open("ns=a");
  const auto b = open("ns=b");
  ASSERT_TRUE(create(*a, "k", "of a"));
  EXPECT_EQ(read(*b, "k"), std::nullopt);
  EXPECT_EQ(read(*plain, "k"), std::nullopt);
  ASSERT_TRUE(create(*b, "k", "of b"));
  EXPECT_EQ(text(*a, "k"), "of a");
}

TEST_P(RecordsTest, AreNotAmongTheLocks) {
  const auto records = open();
  const auto client = Client::connect(place_->url());
  ASSERT_TRUE(client) << client.error();
  const auto version = create(*records, "both", "record");
  ASSERT_TRUE(version);
  const auto lease = client->acquire("both", Mode::exclusive());
  ASSERT_TRUE(lease) << lease.error();
  EXPECT_EQ(text(*records, "both"), "record");
  EXPECT_TRUE(replace(*records, "both", *version, "changed"));
  ASSERT_TRUE(create(*records, "alone", "record"));
  const auto locks = client->list("", 10);
  ASSERT_TRUE(locks) << locks.error();
  ASSERT_EQ(locks->size(), 1U);
  EXPECT_EQ(locks->front().name, "both");
  const auto alone = client->inspect("alone");
  ASSERT_TRUE(alone) << alone.error();
  EXPECT_TRUE(!*alone || (*alone)->holders.empty());
}

// Between two looks at this host's clock, which is the server's here, too.
TEST_P(RecordsTest, TellsTheTimeOfAServerThatHasAClock) {
  const auto records = open();
  const auto wall = [] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        base::wall_now().time_since_epoch());
  };
  const auto before = wall();
  const auto told = records->wall_time(soon());
  ASSERT_TRUE(told) << told.error();
  ASSERT_EQ(told->has_value(), place_->has_clock());
  if (!*told) return;
  EXPECT_GE(**told, before - 1ms);
  EXPECT_LE(**told, wall() + 1ms);
}

TEST_P(RecordsTest, SaysWhatTheStoreForgets) {
  const std::string expected = place_->forgets();
  const std::string said = open()->forgets();
  if (expected.empty()) {
    EXPECT_THAT(said, IsEmpty());
  } else {
    EXPECT_THAT(said, HasSubstr(expected));
  }
}

TEST_P(RecordsTest, AKilledServerKeepsAnsweredChanges) {
  if (!place_->has_server()) GTEST_SKIP() << "no server";
  const auto records = open();
  if (!records->forgets().empty()) GTEST_SKIP() << records->forgets();
  auto version = create(*records, "k", "0");
  for (int i = 1; i <= 5 && version; ++i) {
    version = replace(*records, "k", *version, std::to_string(i));
  }
  ASSERT_TRUE(version);
  place_->kill_and_start();
  std::optional<Record> found;
  ASSERT_TRUE(support::eventually([&] {
    const auto answer = records->read("k", BootClock::now() + 5s);
    if (answer) found = *answer;
    return answer.has_value();
  }));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "5");
  EXPECT_EQ(found->version, *version);
  EXPECT_TRUE(replace(*records, "k", *version, "6"));
  EXPECT_EQ(text(*open(), "k"), "6");
}

TEST_P(RecordsTest, AStoppedServerLeavesExactlyOneOfTwoTries) {
  if (!place_->has_server()) GTEST_SKIP() << "no server";
  const auto records = open();
  const auto version = create(*records, "k", "before");
  ASSERT_TRUE(version);
  place_->pause();
  const auto began = BootClock::now();
  const auto lost = records->replace("k", *version, "first", began + 500ms);
  const auto unread = records->read("k", BootClock::now() + 200ms);
  const auto took = BootClock::now() - began;
  place_->resume();
  ASSERT_FALSE(lost);
  EXPECT_THAT(lost.error().code(), AnyOf(Errc::kOutcomeUnknown, Errc::kUnavailable));
  ASSERT_FALSE(unread);
  EXPECT_EQ(unread.error().code(), Errc::kUnavailable) << unread.error();
  EXPECT_LT(took, 3s);
  std::optional<Record> found;
  ASSERT_TRUE(support::eventually([&] {
    const auto answer = records->read("k", BootClock::now() + 5s);
    if (answer) found = *answer;
    return answer.has_value();
  }));
  ASSERT_TRUE(found);
  EXPECT_THAT(found->text, AnyOf(Eq("before"), Eq("first")));
  const auto again = replace(*records, "k", *version, "second");
  EXPECT_EQ(text(*records, "k"), again ? "second" : "first");
  EXPECT_TRUE(again || lost.error().code() == Errc::kOutcomeUnknown);
  EXPECT_EQ(replace(*records, "k", *version, "third"), std::nullopt);
}

TEST(RecordsOfOtherStoresTest, AreRefusedByName) {
  for (const StoreKind& kind : known_stores()) {
    if (kind.has_records) continue;
    const auto opened = client::open_records(std::string(kind.url_starts.front()) + "nowhere");
    ASSERT_FALSE(opened) << kind.name;
    EXPECT_EQ(opened.error().code(), Errc::kUnsupported);
    EXPECT_THAT(opened.error().message(), HasSubstr(std::string(kind.name))) << kind.name;
  }
}

INSTANTIATE_TEST_SUITE_P(, RecordsTest, ::testing::ValuesIn(stores_under_test()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace holdfast::testing
