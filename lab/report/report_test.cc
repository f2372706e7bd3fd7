#include "lab/report/report.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/temp_folder.h"

#include "lab/history/text.h"
#include "lab/report/picture.h"
#include "lab/report/timeline.h"
#include "lab/report/utf8.h"
#include "lab/testing/story.h"

namespace holdfast::lab {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr std::int64_t kMs = 1'000'000;
constexpr const char* kEvilName = "a <b> & \"c\" | `d` \xff\x01";

// Why `text` is no well-formed XML; empty: it is. Knows what the timeline uses: elements,
// attributes, text, the five entities.
std::string xml_problem(std::string_view text) {
  std::vector<std::string> open;
  std::size_t at = 0;
  bool rooted = false;
  while (at < text.size()) {
    if (text[at] != '<') {
      const std::size_t end = std::min(text.find('<', at), text.size());
      const std::string_view words = text.substr(at, end - at);
      if (open.empty() && words.find_first_not_of(" \n") != words.npos) return "text outside";
      for (std::size_t amp = words.find('&'); amp != words.npos; amp = words.find('&', amp + 1)) {
        const std::string_view entity = words.substr(amp, words.find(';', amp) - amp + 1);
        if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;" && entity != "&quot;" &&
            entity != "&apos;") {
          return "a bare & in '" + std::string(words) + "'";
        }
      }
      at = end;
      continue;
    }
    const std::size_t end = text.find('>', at);
    if (end == text.npos) return "a tag without an end";
    std::string tag(text.substr(at + 1, end - at - 1));
    at = end + 1;
    if (tag.find('<') != tag.npos) return "a < in the tag '" + tag + "'";
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "</" + tag + "> closes nothing";
      open.pop_back();
      continue;
    }
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return "an open quote in '" + tag + "'";
    if (open.empty() && std::exchange(rooted, true)) return "two roots";
    if (tag.back() != '/') open.push_back(name);
  }
  return open.empty() ? "" : "<" + open.back() + "> is never closed";
}

std::size_t count_of(std::string_view text, std::string_view what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// Owner 1 dies in mid-hold, 2 and 3 hold at once (V0 and V1), 3 writes with an old token (V2).
History broken_run() {
  testing::Story story({kEvilName});
  story.acquire(1, 10 * kMs, 11 * kMs, {.token = 1, .deadline = 60 * kMs, .ttl = 50 * kMs});
  story.death(1, 20 * kMs);
  story.fault(FaultKind::kPartition, 30 * kMs, 50 * kMs);
  story.incarnation(24 * kMs, 25 * kMs);
  story.acquire(2, 40 * kMs, 80 * kMs,
                {.token = 3, .deadline = 300 * kMs, .ttl = 200 * kMs, .wait = 60 * kMs});
  story.acquire(3, 100 * kMs, 101 * kMs, {.token = 2, .deadline = 350 * kMs, .ttl = 200 * kMs});
  story.write(2, 120 * kMs, 1, {.token = 3});
  story.write(3, 130 * kMs, 2, {.token = 2});
  story.acquire(4, 140 * kMs, 141 * kMs, {.outcome = Outcome::kBusy, .ttl = 50 * kMs});
  story.lost(2, 200 * kMs);
  story.call(Kind::kRelease, 3, 220 * kMs, 221 * kMs, Outcome::kReleased);
  return story.history();
}

RunFacts facts() {
  RunFacts facts;
  facts.scenario = "a broken run";
  facts.seed = 18'446'744'073'709'551'615ULL;
  facts.store = "redis";
  facts.version = "7.0.15";
  facts.holdfast = "0.1.0";
  facts.duration_ns = 400 * kMs;
  facts.replay = "holdfast-lab run scenarios/broken.toml --seed 18446744073709551615";
  facts.expected[static_cast<std::size_t>(Class::kV1)] = Expected::kMust;
  facts.processes[2] = "bob & <sons>";
  return facts;
}

class ReportTest : public ::testing::Test {
 protected:
  const History history_ = broken_run();
  const Verdict verdict_ = check(history_);
  const RunFacts facts_ = facts();
  const JudgedRun run_{facts_, history_, verdict_};

  static std::string svg(const Picture& picture) {
    std::ostringstream out;
    draw(picture, "heading & <more>", out);
    return out.str();
  }
};

TEST_F(ReportTest, TheJsonParsesAndCountsWhatTheVerdictCounts) {
  ASSERT_GT(verdict_.violations.size(), 2u);
  std::ostringstream out;
  write_json(run_, out);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["format"], "holdfast-lab-report");
  EXPECT_EQ(json["version"], kReportVersion);
  EXPECT_EQ(json["seed"], "18446744073709551615");
  EXPECT_EQ(json["store"]["version"], "7.0.15");
  EXPECT_EQ(json["as_expected"], false);
  EXPECT_EQ(json["operations"], 7);
  EXPECT_EQ(json["faults"]["partition"], 1);
  EXPECT_EQ(json["faults"]["death"], 1);
  EXPECT_EQ(json["faults"]["memory lost"], 1);
  ASSERT_THAT(json["classes"], SizeIs(kClasses));
  for (std::size_t i = 0; i < kClasses; ++i) {
    EXPECT_EQ(json["classes"][i]["seen"], verdict_.counts[i]);
  }
  ASSERT_THAT(json["violations"], SizeIs(verdict_.violations.size()));
  EXPECT_EQ(json["violations"][0]["first"], to_line(history_.events[verdict_.violations[0].first]));
}

TEST_F(ReportTest, ThePageNamesTheClassesTheEventsAndTheWayToRunItAgain) {
  std::ostringstream out;
  write_markdown(run_, out);
  const std::string page = out.str();
  EXPECT_THAT(page, AllOf(HasSubstr("# a broken run"), HasSubstr("--seed 18446744073709551615"),
                          HasSubstr("**Not as expected.**"), HasSubstr("timeline.svg")));
  EXPECT_THAT(page, HasSubstr("| V1 | two owners believed to hold at once | must | 1 | ok |"));
  EXPECT_THAT(page, HasSubstr("**violated**"));
  for (const Violation& violation : verdict_.violations) {
    EXPECT_THAT(page, HasSubstr("**" + std::string(name_of(violation.kind)) + "**"));
    EXPECT_THAT(page, HasSubstr("event " + std::to_string(violation.second) + ": "));
  }
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
}

TEST_F(ReportTest, WhatMustBeSeenAndIsNotIsAFailureToo) {
  RunFacts expecting = facts();
  for (std::size_t i = 0; i < kClasses; ++i) {
    expecting.expected[i] = verdict_.counts[i] > 0 ? Expected::kMust : Expected::kNone;
  }
  EXPECT_TRUE(as_expected(expecting.expected, verdict_));
  expecting.expected[static_cast<std::size_t>(Class::kOrphaned)] = Expected::kMay;
  EXPECT_TRUE(as_expected(expecting.expected, verdict_));
  expecting.expected[static_cast<std::size_t>(Class::kOrphaned)] = Expected::kMust;
  EXPECT_FALSE(as_expected(expecting.expected, verdict_));
}

TEST_F(ReportTest, TheTimelineIsWellFormedAndDrawsEveryViolation) {
  const Picture picture = make_picture(history_, verdict_, facts_.processes);
  const std::string drawn = svg(picture);
  EXPECT_EQ(xml_problem(drawn), "");
  EXPECT_EQ(valid_utf8(drawn).size(), drawn.size());
  ASSERT_THAT(picture.boxes, SizeIs(verdict_.violations.size()));
  for (std::size_t i = 1; i <= verdict_.violations.size(); ++i) {
    EXPECT_EQ(count_of(drawn, "data-number=\"" + std::to_string(i) + "\""), 1u);
  }
  EXPECT_THAT(drawn, AllOf(HasSubstr("2/0 bob &amp; &lt;sons&gt;"), HasSubstr("a &lt;b&gt; &amp;"),
                           HasSubstr("partition store"), HasSubstr("memory lost store")));
  EXPECT_THAT(picture.notes, IsEmpty());
}

TEST_F(ReportTest, TheTimelineShowsHoldsWaitsDeathsLossesAndWrites) {
  const Picture picture = make_picture(history_, verdict_, {});
  ASSERT_THAT(picture.rows, SizeIs(4));
  const Row& dead = picture.rows[0];
  ASSERT_THAT(dead.bars, SizeIs(2));
  EXPECT_EQ(dead.bars[1].kind, BarKind::kExclusive);
  EXPECT_EQ(dead.bars[1].end, 20 * kMs) << "a hold ends with its owner";
  ASSERT_THAT(dead.marks, SizeIs(1));
  EXPECT_EQ(dead.marks[0].kind, MarkKind::kDeath);
  const Row& second = picture.rows[1];
  EXPECT_EQ(second.bars[0].kind, BarKind::kWaiting);
  EXPECT_EQ(second.bars[0].end - second.bars[0].begin, 40 * kMs);
  EXPECT_EQ(second.bars[1].end, 200 * kMs) << "told lost";
  EXPECT_EQ(picture.rows[3].marks.at(0).kind, MarkKind::kBusy);
  EXPECT_THAT(picture.bands, SizeIs(2));
}

TEST_F(ReportTest, ALongRunShowsThePartAroundItsFirstViolation) {
  testing::Story story;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::int64_t at = i * 10 * kMs;
    const auto process = static_cast<std::uint32_t>(i + 1);
    story.acquire(process, at, at + kMs,
                  {.token = process, .deadline = at + 200 * kMs, .ttl = 200 * kMs});
    // One of them is not released in time.
    const std::int64_t release = i == 700 ? at + 15 * kMs : at + 5 * kMs;
    story.call(Kind::kRelease, process, release, release + kMs, Outcome::kReleased);
  }
  const History history = story.history();
  const Verdict verdict = check(history);
  ASSERT_EQ(verdict.count(Class::kV1), 1u);
  const Picture picture = make_picture(history, verdict, {});
  EXPECT_THAT(picture.boxes, SizeIs(verdict.violations.size()));
  EXPECT_LE(picture.rows.size(), PictureLimits().rows + 2);
  EXPECT_LT(picture.begin, 7010 * kMs);
  EXPECT_GT(picture.end, 7015 * kMs);
  EXPECT_LT(picture.end - picture.begin, 2000 * kMs);
  EXPECT_THAT(picture.notes, ElementsAre(HasSubstr("around the first violation"),
                                         HasSubstr("more owners are not drawn")));
  EXPECT_EQ(xml_problem(svg(picture)), "");
}

// One short hold every 10 ms.
testing::Story steady_work(std::int64_t holds) {
  testing::Story story;
  for (std::int64_t i = 0; i < holds; ++i) {
    const std::int64_t at = i * 10 * kMs;
    const auto process = static_cast<std::uint32_t>(i + 1);
    story.acquire(process, at, at + kMs,
                  {.token = process, .deadline = at + 200 * kMs, .ttl = 200 * kMs});
    story.call(Kind::kRelease, process, at + 5 * kMs, at + 6 * kMs, Outcome::kReleased);
  }
  return story;
}

TEST_F(ReportTest, ALongRunWithoutViolationShowsThePartAroundItsFirstFault) {
  testing::Story story = steady_work(1000);
  story.fault(FaultKind::kStall, 20 * kMs, 30 * kMs);          // Nobody's doing.
  story.fault(FaultKind::kPartition, 7000 * kMs, 9500 * kMs);  // Longer than fits.
  story.fault(FaultKind::kDelay, 9600 * kMs, 9650 * kMs);
  const History history = story.history();
  const Verdict verdict = check(history);
  ASSERT_TRUE(verdict.clean());
  const Picture picture = make_picture(history, verdict, {});
  EXPECT_GT(picture.begin, 5000 * kMs);
  EXPECT_LT(picture.begin, 7000 * kMs);
  EXPECT_GT(picture.end, 7000 * kMs);
  ASSERT_THAT(picture.bands, SizeIs(1));
  EXPECT_THAT(picture.bands[0].label, HasSubstr("partition"));
  EXPECT_THAT(picture.notes, ::testing::Contains(HasSubstr("around the first fault")));
}

TEST_F(ReportTest, ALongCleanRunShowsItsBeginning) {
  testing::Story story = steady_work(50);
  story.fault(FaultKind::kStall, 300 * kMs, 310 * kMs);
  const History history = story.history();
  const Verdict verdict = check(history);
  ASSERT_TRUE(verdict.clean());
  const Picture picture = make_picture(history, verdict, {}, {.bars = 12, .rows = 5});
  EXPECT_EQ(picture.begin, history.events.front().at_ns);
  EXPECT_LT(picture.end, history.events.back().at_ns);
  EXPECT_THAT(picture.notes, ::testing::Contains(HasSubstr("the first 12 of")));
  EXPECT_LE(picture.rows.size(), 5u);
  EXPECT_EQ(xml_problem(svg(picture)), "");
}

TEST_F(ReportTest, ARunOfNothingIsAReportToo) {
  const History nothing;
  const Verdict verdict = check(nothing);
  const JudgedRun run{facts_, nothing, verdict};
  std::ostringstream json;
  write_json(run, json);
  EXPECT_EQ(nlohmann::json::parse(json.str())["operations"], 0);
  const std::string drawn = svg(make_picture(nothing, verdict, {}));
  EXPECT_EQ(xml_problem(drawn), "");
  EXPECT_THAT(drawn, HasSubstr("nothing was recorded"));
}

TEST_F(ReportTest, TheFolderHoldsAllFormsAndTheHistoryThatWasJudged) {
  std::optional<support::TempFolder> place("report");
  const std::string folder = place->path();
  testing::Story story({"orders/42"});
  story.acquire(1, kMs, 2 * kMs, {.token = 1, .deadline = 60 * kMs, .ttl = 50 * kMs});
  const History history = story.history();
  const Verdict verdict = check(history);
  ASSERT_TRUE(write_report(folder, {facts_, history, verdict}).has_value());
  std::ifstream written(folder + "/history.txt");
  EXPECT_EQ(read(written).value(), history);
  for (const char* name : {"report.md", "report.json", "timeline.svg"}) {
    EXPECT_GT(std::filesystem::file_size(folder + "/" + name), 100u) << name;
  }
  // Half a history would look like one.
  std::filesystem::remove(folder + "/history.txt");
  std::filesystem::create_directories(folder + "/history.txt/in-the-way");
  EXPECT_FALSE(write_report(folder, {facts_, history, verdict}).has_value());
  EXPECT_FALSE(std::filesystem::exists(folder + "/history.txt.part"));
  place.reset();
  const Result<void> nowhere = write_report(folder, run_);
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code(), Errc::kUnavailable);
}

TEST(Utf8Test, WhatIsNoTextBecomesAQuestionMark) {
  EXPECT_EQ(valid_utf8("grün €"), "grün €");
  EXPECT_EQ(valid_utf8("a\xff\xc0\x80z"), "a???z");
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), "???") << "a surrogate";
  EXPECT_EQ(valid_utf8("\xef\xbf\xbf"), "???") << "no character of XML";
  EXPECT_EQ(valid_utf8("\xf0\x9f\x94"), "???") << "cut off";
  EXPECT_EQ(valid_utf8("a\nb\x7f"), "a?b?");
  EXPECT_EQ(shortened("grün", 4), "grün");
  EXPECT_EQ(shortened("grüne", 4), "grü…");
  EXPECT_THAT(wrapped("ein grüner Baum", 10), ElementsAre("ein grüner", "Baum"));
  EXPECT_THAT(wrapped("abcdef", 4), ElementsAre("abcd", "ef"));
}

}  // namespace
}  // namespace holdfast::lab
