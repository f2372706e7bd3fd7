#include "src/server/front/calls.h"

#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::server {
namespace {

using machine::Duration;
using machine::Instant;
using machine::Outcome;

constexpr char kId[] = "0123456789abcdef00000000000000ff";
constexpr char kOwner[] =
    R"({"owner":"o","host":"h","pid":7,"program":"p","since_unix_ms":1700000000000,"reason":"r"})";

Result<Call> read(const std::vector<std::string>& words) {
  OwnerCache owners;
  static std::vector<std::string> kept;  // A call points into the words.
  kept = words;
  return read_call(Words(kept.begin(), kept.end()), owners);
}

template <typename Action>
Action action_of(const Call& call, std::size_t index = 0) {
  return std::get<Action>(call.requests.at(index).action);
}

TEST(CallsTest, AnAcquireIsRead) {
  const auto call = read({"HF1", "acquire", "1", "hf1:{a/b}", "client", kId, "0000000000000042",
                          "30000000", kOwner, "Pe 1 1 1 5000000 3 -"});
  ASSERT_TRUE(call);
  ASSERT_EQ(call->requests.size(), 1U);
  EXPECT_EQ(call->requests[0].client, "client");
  EXPECT_EQ(call->requests[0].issue, 42U);
  const auto acquire = action_of<machine::Acquire>(*call);
  EXPECT_EQ(acquire.name, "a/b");
  EXPECT_EQ(acquire.id, (machine::AcquisitionId{0x0123456789abcdef, 0xff}));
  EXPECT_EQ(acquire.ttl, std::chrono::seconds(30));
  EXPECT_EQ(acquire.waiter_ttl, std::chrono::seconds(5));
  EXPECT_EQ(acquire.mode, machine::Mode::exclusive());
  EXPECT_TRUE(acquire.may_wait);
  EXPECT_EQ(acquire.max_waiters, 3U);
  EXPECT_EQ(acquire.owner->host, "h");
  EXPECT_EQ(acquire.owner->pid, 7);
  EXPECT_EQ(acquire.owner->reason, "r");
}

TEST(CallsTest, SeveralLocksHaveTheirOwnWords) {
  const auto call =
      read({"HF1", "acquire", "2", "hf1:{a}", "hf1:{b}", "client", kId, "1", "1000", kOwner,
            "Qs 1 1 0 0 0 -", kId, "2", "2000", kOwner, std::string("Qp 2 5 1 7 0 ") + kId});
  ASSERT_TRUE(call);
  ASSERT_EQ(call->requests.size(), 2U);
  EXPECT_EQ(action_of<machine::Acquire>(*call, 0).mode, machine::Mode::shared());
  EXPECT_FALSE(action_of<machine::Acquire>(*call, 0).may_wait);
  const auto second = action_of<machine::Acquire>(*call, 1);
  EXPECT_EQ(second.name, "b");
  EXPECT_EQ(second.mode, machine::Mode::of_permits(2, 5));
  EXPECT_TRUE(second.upgrade_of);
}

TEST(CallsTest, NamesAreDecodedAndHaveOneSpelling) {
  const auto call = read({"HF1", "inspect", "1", "hf1:{100%25 %7Bx%7D}"});
  ASSERT_TRUE(call);
  EXPECT_EQ(call->name, "100% {x}");
  EXPECT_EQ(value_channel_of(call->name), "hf1:{100%25 %7Bx%7D}:v");
  for (const char* key : {"hf1:{a%41}", "hf1:{a%}", "hf1:{a{b}", "hf1:{}", "hf1:a", "hf2:{a}",
                          "hf1:{a}:v", "hf1:{a\n}", "", "hf1:{%25%2}"}) {
    EXPECT_FALSE(read({"HF1", "inspect", "1", key})) << key;
  }
  const std::pair<std::string, const char*> names[] = {
      {std::string(2'000, 'x'), "it has 2000 bytes"},
      {"orders/\xff", "it is not UTF-8 at byte 7"},
      {"a\xc2\x85", "U+0085 at byte 1"}};
  for (const auto& [name, why] : names) {
    const std::string key = "hf1:{" + name + "}";
    for (const auto& bad : {read({"HF1", "inspect", "1", key}),
                            read({"HF1", "end", "1", key, "c", kId, "1", "release"}),
                            read({"HF1", "list", "0", name, "9", ""})}) {
      ASSERT_FALSE(bad) << why;
      EXPECT_NE(bad.error().message().find(why), std::string::npos) << bad.error().message();
    }
  }
}

TEST(CallsTest, TextsAreKeptAndRead) {
  const auto kept = read({"HF1", "kept", "1", "hf1:{ids/a}"});
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->name, "ids/a");
  const auto keep = read({"HF1", "keep", "1", "hf1:{ids/a}", "7", "two\nlines"});
  ASSERT_TRUE(keep);
  EXPECT_EQ(keep->keeps.key, "ids/a");
  EXPECT_EQ(keep->keeps.version, 7U);
  EXPECT_EQ(keep->keeps.text, "two\nlines");
  EXPECT_FALSE(read({"HF1", "keep", "1", "hf1:{ids/a}", "-1", "x"}));
  EXPECT_FALSE(read({"HF1", "keep", "1", "hf1:{ids/a}", "7"}));
}

TEST(CallsTest, KeepAndSetValueAreToldApart) {
  const auto set = read({"HF1", "set_value", "1", "hf1:{a}", kId, "text", "v", "0", "0"});
  ASSERT_TRUE(set);
  EXPECT_EQ(action_of<machine::SetValue>(*set).value, "text");
  const auto keep = read({"HF1", "set_value", "1", "hf1:{a}", kId, "text", "v", "9", "1000"});
  ASSERT_TRUE(keep);
  EXPECT_EQ(action_of<machine::Keep>(*keep).value, "text");
  EXPECT_EQ(action_of<machine::Keep>(*keep).seq, 9U);
  const auto bare = read({"HF1", "set_value", "1", "hf1:{a}", kId, "", "-", "9", "1000"});
  ASSERT_TRUE(bare);
  EXPECT_FALSE(action_of<machine::Keep>(*bare).value);
}

TEST(CallsTest, MalformedCallsAreRefused) {
  const std::vector<std::vector<std::string>> calls = {
      {"HF1"},
      {"HF1", "acquire"},
      {"HF1", "acquire", "x"},
      {"HF1", "acquire", "0"},
      {"HF1", "acquire", "18446744073709551615"},
      {"HF1", "acquire", "129", "hf1:{a}"},
      {"HF1", "dance", "0"},
      {"HF1", "attach", "0", "more"},
      {"HF1", "end", "1", "hf1:{a}", "client", kId, "1", "leave"},
      {"HF1", "end", "1", "hf1:{a}", "client", "short", "1", "release"},
      {"HF1", "end", "1", "hf1:{a}", std::string(65, 'c'), kId, "1", "release"},
      {"HF1", "renew", "1", "hf1:{a}", "client", kId, "1", "-1", "0"},
      {"HF1", "renew", "1", "hf1:{a}", "client", kId, "1", "9223372036854775807", "0"},
      {"HF1", "acquire", "1", "hf1:{a}", "c", kId, "1", "1000", "{}", "Pe 1 1 1 0 0"},
      {"HF1", "acquire", "1", "hf1:{a}", "c", kId, "1", "1000", "{}", "Pe 1 1 1 0 0 - -"},
      {"HF1", "acquire", "1", "hf1:{a}", "c", kId, "1", "1000", "{}", "Px 1 1 1 0 0 -"},
      {"HF1", "acquire", "1", "hf1:{a}", "c", kId, "1", "1000", "{}", "e 1 1 1 0 0 -"},
  };
  for (const auto& words : calls) {
    const auto call = read(words);
    EXPECT_FALSE(call) << words.size() << " " << words.back();
  }
}

TEST(CallsTest, AnswersAreTheScriptsWords) {
  Answer answer;
  answer.at = Instant(Duration(1'000));
  answer.reply = {.outcome = Outcome::kHeld, .token = {0, 17}, .seq = 3, .lease = Duration(500)};
  EXPECT_EQ(answer_text(answer), "held 17 3 500");
  answer.reply = {.outcome = Outcome::kWaiting,
                  .seq = 1,
                  .lease = Duration(9),
                  .position = 2,
                  .next_expiry = Instant(Duration(1'500))};
  EXPECT_EQ(answer_text(answer), "waiting 1 9 2 500");
  // Older clients refuse an answer with more words.
  answer.reply.opens_at = Instant(Duration(9'000));
  EXPECT_EQ(answer_text(answer), "waiting 1 9 2 500");
  port::Push push{port::Push::Kind::kDelayed, machine::AcquisitionId{0, 7}, {}};
  push.state.opens_in = Duration(8'000);
  EXPECT_EQ(push_text(push), "delayed 00000000000000000000000000000007 8000");
  answer.reply = {.outcome = Outcome::kBusy, .next_expiry = Instant(Duration(900))};
  EXPECT_EQ(answer_text(answer), "busy 0");
  answer.reply = {.outcome = Outcome::kMismatch};
  answer.in_use = machine::Mode::of_permits(1, 5);
  EXPECT_EQ(answer_text(answer), "mismatch p 5");
  answer.reply = {.outcome = Outcome::kInvalid};
  EXPECT_EQ(answer_text(answer), "invalid");
  EXPECT_EQ(answer_text(answer, /*base_ended=*/true), "ended");
  answer.reply = {.outcome = Outcome::kGone};
  EXPECT_EQ(answer_text(answer), "gone");
  EXPECT_EQ(renewal_text(answer), "gone");
  answer.last_break = BreakTrace{{0, 4}, port::read_owner(R"({"owner":"root"})")};
  EXPECT_EQ(answer_text(answer), "gone");
  EXPECT_EQ(renewal_text(answer).substr(0, 24), R"(broken {"token":"4","by")");
}

}  // namespace
}  // namespace holdfast::server
