#include "src/stores/redis/protocol/answers.h"

#include <string>

#include <gtest/gtest.h>

#include "src/port/outcome.h"
#include "src/port/owner_json.h"
#include "src/stores/redis/protocol/lock_view.h"

namespace holdfast::stores::redis {
namespace {

using machine::Duration;
using machine::Mode;
using port::AcquisitionState;
using port::AcquisitionStatus;
using port::Push;

constexpr port::AcquisitionId kId{0x0123456789abcdef, 0xfedcba9876543210};

port::AcquireRequest request(const Mode& mode = Mode::exclusive()) {
  port::AcquireRequest made;
  made.name = "orders";
  made.id = kId;
  made.mode = mode;
  return made;
}

TEST(RedisAnswersTest, AGrantTellsItsTerms) {
  const auto state = acquire_answer("held 1795250130390785 3 30000000", request());
  ASSERT_TRUE(state) << state.error().message();
  EXPECT_EQ(state->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(state->token, (port::Token{0, 1795250130390785}));
  EXPECT_EQ(state->seq, 3U);
  EXPECT_EQ(state->lease, Duration(30'000'000));
}

TEST(RedisAnswersTest, AWaiterIsToldItsPlaceAndWhenToAsk) {
  const auto state = acquire_answer("waiting 0 5000000 17 1250000", request());
  ASSERT_TRUE(state);
  EXPECT_EQ(state->status, AcquisitionStatus::kWaiting);
  EXPECT_EQ(state->ahead, 17U);
  EXPECT_EQ(state->next_expiry, Duration(1'250'000));
}

TEST(RedisAnswersTest, RefusalsAreErrorsOfTheirOwn) {
  const auto code = [](const char* text, const port::AcquireRequest& of) {
    const auto state = acquire_answer(text, of);
    return state ? Errc{} : state.error().code();
  };
  EXPECT_EQ(code("full", request()), Errc::kQueueFull);
  EXPECT_EQ(code("deadlock", request()), Errc::kWouldDeadlock);
  EXPECT_EQ(code("toolarge", request(Mode::of_permits(5, 4))), Errc::kInvalidArgument);
  EXPECT_EQ(code("mismatch p 4", request()), Errc::kInvalidArgument);
  port::AcquireRequest upgrade = request();
  upgrade.upgrade_of = {1, 1};
  EXPECT_EQ(code("ended", upgrade), Errc::kLost);
  EXPECT_EQ(code("invalid", upgrade), Errc::kInvalidArgument);
}

TEST(RedisAnswersTest, AMismatchSaysWhatIsInUse) {
  const auto state = acquire_answer("mismatch p 4", request());
  ASSERT_FALSE(state);
  EXPECT_NE(state.error().message().find("4 permits"), std::string::npos)
      << state.error().message();
}

TEST(RedisAnswersTest, WhatIsNoAnswerIsCorruptNeverAGrant) {
  for (const char* text : {"", " ", "held", "held x 0 1", "held 1", "held 1 2", "held 1 2 3x",
                           "waiting 1 2 3", "waiting 1 2 -3 4", "busy", "HELD 1 2 3", "held  1 2 3",
                           "held 99999999999999999999 0 1", "OK"}) {
    const auto state = acquire_answer(text, request());
    ASSERT_FALSE(state) << "'" << text << "'";
    EXPECT_EQ(state.error().code(), Errc::kCorruptState) << "'" << text << "'";
  }
}

TEST(RedisAnswersTest, OnlyTheHolderThatWasBrokenIsToldSo) {
  machine::OwnerInfo root;
  root.owner = "root on call";
  root.reason = "stuck";
  const machine::Token broken{0, 1795250130390785};
  const std::string text =
      "broken " + port::write_trace({broken, std::make_shared<machine::OwnerInfo>(root)});
  port::RenewItem item;
  item.name = "orders";
  item.token = broken;
  const auto told = renew_answer(text, item);
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code(), Errc::kBroken);
  EXPECT_NE(told.error().message().find("root on call: stuck"), std::string::npos);

  item.token.counter += 1;
  const auto other = renew_answer(text, item);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->status, AcquisitionStatus::kGone);
}

TEST(RedisAnswersTest, WhatAScriptRaisedIsTyped) {
  const auto later = script_error(
      "ERR user_script:190: HOLDFAST-VERSION 2 of hf1:{a} script: 0ab, on @user_script:190.", "x");
  ASSERT_TRUE(later);
  EXPECT_EQ(later->code(), Errc::kVersionMismatch);
  EXPECT_NE(later->message().find("format 2"), std::string::npos) << later->message();
  EXPECT_EQ(later->message().find("user_script"), std::string::npos) << later->message();
  const auto corrupt = script_error("ERR HOLDFAST-CORRUPT record hf1:{a}", "x");
  ASSERT_TRUE(corrupt);
  EXPECT_EQ(corrupt->code(), Errc::kCorruptState);
  EXPECT_FALSE(script_error("OOM command not allowed", "x"));
}

TEST(RedisAnswersTest, APushIsAGrantAHintOrNewsOfALockDelay) {
  const auto granted = parse_push("granted " + id_text(kId) + " 1795250130390785 2 5000000");
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->kind, Push::Kind::kGranted);
  EXPECT_EQ(granted->id, kId);
  EXPECT_EQ(granted->state.seq, 2U);
  EXPECT_EQ(granted->state.lease, Duration(5'000'000));
  const auto hint = parse_push("hint " + id_text(kId));
  ASSERT_TRUE(hint);
  EXPECT_EQ(hint->kind, Push::Kind::kHint);
  const auto delayed = parse_push("delayed " + id_text(kId) + " 60000000");
  ASSERT_TRUE(delayed);
  EXPECT_EQ(delayed->kind, Push::Kind::kDelayed);
  EXPECT_EQ(delayed->state.opens_in, Duration(60'000'000));
  for (const std::string& text :
       {std::string(), std::string("hint"), "hint " + id_text(kId).substr(1),
        "delayed " + id_text(kId), "delayed " + id_text(kId) + " -1", "granted " + id_text(kId),
        "granted " + id_text(kId) + " 1 2", "later " + id_text(kId)}) {
    EXPECT_FALSE(parse_push(text)) << "'" << text << "'";
  }
}

TEST(RedisAnswersTest, AnIdComesBackFromItsText) {
  EXPECT_EQ(parse_id(id_text(kId)), kId);
  EXPECT_EQ(parse_id("0123456789abcdef0123456789abcdeg"), std::nullopt);
  EXPECT_EQ(parse_id("0123456789abcdef"), std::nullopt);
}

TEST(RedisAnswersTest, WhatOnlyLooksLikeAnAnswerIsNone) {
  for (const char* text : {"held 0 0 0", "held 5 0 -1", "held 5 0 1 2", "held  5 0 1",
                           "held 5 0 9007199254740992", "waiting 1 -5 0 0", "busy 1 2", "gone x"}) {
    EXPECT_FALSE(parse_answer(text)) << text;
  }
  const std::string id = id_text(kId);
  EXPECT_TRUE(parse_push("granted " + id + " 5 0 1"));
  EXPECT_FALSE(parse_push("granted " + id + " 0 0 1"));
  EXPECT_FALSE(parse_push("granted " + id + " 5 0 -1"));
  EXPECT_FALSE(parse_push("hint " + std::string(32, '0')));
}

Reply view_reply(const std::string& now, const std::string& record, const std::string& ticket = "",
                 const std::string& score = "") {
  const auto text = [](const std::string& from) {
    Reply reply;
    reply.kind = Reply::Kind::kText;
    reply.text = from;
    return reply;
  };
  Reply reply;
  reply.items = {text(now), text(record), {}, {}, {}, text("")};
  if (!ticket.empty()) reply.items[2].items = {text(id_text(kId)), text(ticket)};
  if (!score.empty()) reply.items[3].items = {text(id_text(kId)), text(score)};
  return reply;
}

TEST(RedisViewTest, RecordsThatMakeNoSenseAreRefused) {
  const std::string id = id_text(kId);
  const auto held = [&](const std::string& rest) { return "1 held 17 c 1 " + id + " " + rest; };
  EXPECT_TRUE(view_of(view_reply("5", held("1 0 9 {}")), "x"));
  EXPECT_FALSE(view_of(view_reply("5", held("9223372036854775807 0 9 {}")), "x"));
  EXPECT_FALSE(view_of(view_reply("5", held("1 0 -9 {}")), "x"));
  EXPECT_FALSE(view_of(view_reply("-5", held("1 0 9 {}")), "x"));
  EXPECT_FALSE(view_of(view_reply("5", "1 held 17 c 1 zz 1 0 9 {}"), "x"));

  const std::string many = "1 many 17 p f 3";
  EXPECT_TRUE(view_of(view_reply("5", many, "h p 2 1 0 9 17 c - {}", "14"), "x"));
  for (const char* score : {"inf", "nan", "-inf", "1e300", "-1"}) {
    EXPECT_FALSE(view_of(view_reply("5", many, "h p 2 1 0 9 17 c - {}", score), "x")) << score;
  }
  for (const char* ticket : {"z p 2 1 0 9 17 c - {}", "h q 2 1 0 9 17 c - {}",
                             "h p 4 1 0 9 17 c - {}", "h p 0 1 0 9 17 c - {}"}) {
    EXPECT_FALSE(view_of(view_reply("5", many, ticket, "14"), "x")) << ticket;
  }
}

}  // namespace
}  // namespace holdfast::stores::redis
