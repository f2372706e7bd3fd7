#include "holdfast/ids/layout.h"

#include <rapidcheck.h>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace holdfast::ids {
namespace {

using std::chrono::milliseconds;

TEST(LayoutTest, ThePresetsAreWhatTheirMakersUse) {
  const Layout twitter = *Layout::parse("twitter");
  EXPECT_EQ(twitter.time_bits(), 41);
  EXPECT_EQ(twitter.workers(), 1'024u);
  EXPECT_EQ(twitter.ids_per_second(), 4'096'000);
  // A tweet of Wikipedia's, written on 2022-06-28 at 16:07:40.105 UTC on machine 378.
  const Decoded tweet = *twitter.decode(Id::of(1'541'815'603'606'036'480u));
  EXPECT_EQ(twitter.compose(tweet.time, tweet.worker, tweet.sequence)->number(),
            1'541'815'603'606'036'480u);
  EXPECT_EQ(tweet.unix_time, milliseconds(1'656'432'460'105));
  EXPECT_EQ(tweet.worker, 378u);
  EXPECT_EQ(Layout::parse("sonyflake")->workers(), 65'536u);
  EXPECT_EQ(Layout::parse("sonyflake")->ids_per_second(), 25'600);
  EXPECT_LT(Layout::parse("javascript")->compose((std::uint64_t{1} << 41) - 1, 15, 255)->number(),
            std::uint64_t{1} << 53);
  const double life = static_cast<double>(Layout::parse("uidgenerator")->lifetime().count());
  EXPECT_NEAR(life / (365.25 * 86'400'000), 8.5, 0.01);
}

TEST(LayoutTest, PartsOfAWorkerKeepTheirOrder) {
  const Layout twitter = *Layout::parse("twitter");
  const Layout swapped = *Layout::parse("twitter-machine-first");
  const Id id = *twitter.compose(1, 3 << 5 | 7, 0);
  EXPECT_EQ(twitter.field(id, "datacenter"), 3u);
  EXPECT_EQ(twitter.field(id, "machine"), 7u);
  EXPECT_EQ(swapped.field(id, "machine"), 3u);
  EXPECT_EQ(twitter.field(id, "rack"), std::nullopt);
}

TEST(LayoutTest, AValueThatDoesNotFitIsRefusedAndRunsIntoNoOtherBits) {
  const Layout leaf = *Layout::parse("leaf");
  for (const auto& made : {leaf.compose(0, 1'024, 0), leaf.compose(0, 0, 4'096),
                           leaf.compose(std::uint64_t{1} << 41, 0, 0)}) {
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), Errc::kInvalidArgument);
  }
  const Layout small = *Layout::parse("javascript");
  EXPECT_EQ(small.decode(Id::of(std::uint64_t{1} << 53)).error().code(), Errc::kInvalidArgument);
  EXPECT_EQ(small.decode(Id{1, 2, IdForm::kUuid}).error().code(), Errc::kInvalidArgument);
}

TEST(LayoutTest, ABadLayoutIsRefusedAndNamesWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "'time'"},
      {"worker:10 sequence:12", "'time'"},
      {"time:41 worker:10 sequence:13", "63"},
      {"time:0 sequence:12", "from 1 to 63"},
      {"time:-3", "from 1 to 63"},
      {"time:41 time:10", "name of its own"},
      {"time:20 worker:33", "32 bits for the worker"},
      {"time:20 sequence:33", "32 bits of sequence"},
      {"time:41 unit:0ms", "unit"},
      {"time:41 unit:2h", "unit:10ms"},
      {"time:41 unit:11s", "10 s"},
      {"time:41 epoch:2026", "epoch:2026-01-01"},
      {"time:41 epoch:2026-02-30", "epoch:2026-01-01"},
      {"time:41 a\nb:10", "letters"},
      {"time:41 id:10", "'id'"},
      {"time:41 epoch:1969-01-01", "1970"},
      {"time:41 epoch:2026-13-01", "epoch:2026-01-01"},
      {"time:x", "number"},
      {"tweeter", "twitter"},
  };
  for (const auto& [text, named] : wrong) {
    const auto made = Layout::parse(text);
    ASSERT_FALSE(made) << text;
    EXPECT_EQ(made.error().code(), Errc::kInvalidArgument);
    EXPECT_NE(made.error().message().find(named), std::string::npos) << made.error().message();
  }
}

TEST(LayoutTest, OnlyATimeAboveTheSequenceClaimsOrder) {
  EXPECT_TRUE(Layout::parse("sonyflake")->ordered());
  EXPECT_FALSE(Layout::parse("sequence:12 time:41 worker:10")->ordered());
  EXPECT_TRUE(Layout::parse("twitter")->ordered_over_workers());
  const Layout worker_first = *Layout::parse("worker:10 time:41 sequence:12");
  EXPECT_TRUE(worker_first.ordered());
  EXPECT_FALSE(worker_first.ordered_over_workers());
}

TEST(LayoutTest, AFieldCannotBeNamedAsWhatFollowsTheFields) {
  for (const char* name : {"unit", "epoch", "id", "", "a b", "a:b"}) {
    EXPECT_FALSE(Layout::make({.fields = {{"time", 41}, {name, 10}}})) << name;
  }
}

RC_GTEST_PROP(LayoutProperties, ComposeAndDecodeAreInverse, ()) {
  std::vector<LayoutField> fields{{"time", *rc::gen::inRange(1, 42)},
                                  {"sequence", *rc::gen::inRange(1, 13)},
                                  {"a", *rc::gen::inRange(1, 5)},
                                  {"b", *rc::gen::inRange(1, 5)}};
  const auto order = *rc::gen::inRange(0, 24);
  for (int i = 0; i < order; ++i) {
    std::next_permutation(fields.begin(), fields.end(),
                          [](const auto& x, const auto& y) { return x.name < y.name; });
  }
  const milliseconds unit(*rc::gen::inRange(1, 2'000));
  const milliseconds epoch(*rc::gen::inRange<std::int64_t>(0, 2'000'000'000));
  const Layout layout = *Layout::make({fields, unit, epoch});
  RC_ASSERT(*Layout::parse(layout.to_string()) == layout);
  const auto below = [](int bits) {
    return *rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << bits);
  };
  const std::uint64_t time = below(layout.time_bits());
  const std::uint64_t worker = below(layout.worker_bits());
  const std::uint64_t sequence = below(layout.sequence_bits());
  const Id id = *layout.compose(time, worker, sequence);
  const Decoded parts = *layout.decode(id);
  RC_ASSERT(parts.time == time);
  RC_ASSERT(parts.worker == worker);
  RC_ASSERT(parts.sequence == sequence);
  RC_ASSERT(*Id::parse(id.to_string()) == id);
}

}  // namespace
}  // namespace holdfast::ids
