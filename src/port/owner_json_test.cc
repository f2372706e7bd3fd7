#include "src/port/owner_json.h"

#include <chrono>
#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace holdfast::port {
namespace {

TEST(OwnerJsonTest, AnOwnerComesBackAndCarriesWhateverText) {
  machine::OwnerInfo owner;
  owner.owner = "vm-1 \"quoted\" {braces}\\";
  owner.host = "here";
  owner.pid = 42;
  owner.program = "billing";
  owner.reason = "nightly\nrun ü";
  owner.since_unix_ms = 1'700'000'000'000;
  owner.trace_id = "00-4bf92f3577b34da6a3ce929d0e0e4736-01";
  owner.lock_delay = std::chrono::seconds(60);
  const std::string json = write_owner(std::make_shared<machine::OwnerInfo>(owner));
  EXPECT_EQ(json.find('\n'), std::string::npos);
  EXPECT_EQ(*read_owner(json), owner);
}

// Plain text is written without the JSON library: the same way as the trace of a break, with it.
TEST(OwnerJsonTest, PlainTextIsWrittenAsTheLibraryWritesIt) {
  machine::OwnerInfo owner;
  owner.owner = "host/7/0123";
  owner.host = "host";
  owner.pid = 7;
  owner.program = "program";
  owner.since_unix_ms = 1'700'000'000'000;
  for (const char* reason : {"", "plain: it's all ASCII ~", "a \"quote\"", "a \\", "\x7f", "\n"}) {
    owner.reason = reason;
    const auto shared = std::make_shared<machine::OwnerInfo>(owner);
    EXPECT_EQ(write_trace({{0, 5}, shared}), R"({"token":"5","by":)" + write_owner(shared) + "}");
  }
  owner.trace_id = "trace-1";
  owner.reason = "plain";
  const auto traced = std::make_shared<machine::OwnerInfo>(owner);
  EXPECT_EQ(write_trace({{0, 5}, traced}), R"({"token":"5","by":)" + write_owner(traced) + "}");
  EXPECT_EQ(*read_owner(write_owner(traced)), owner);
  owner.lock_delay = std::chrono::milliseconds(1'500);
  const auto delayed = std::make_shared<machine::OwnerInfo>(owner);
  EXPECT_EQ(write_trace({{0, 5}, delayed}), R"({"token":"5","by":)" + write_owner(delayed) + "}");
  EXPECT_EQ(*read_owner(write_owner(delayed)), owner);
  owner.reason = std::string(3000, 'r');
  EXPECT_EQ(read_owner(write_owner(std::make_shared<machine::OwnerInfo>(owner)))->reason.size(),
            2048U);
}

TEST(OwnerJsonTest, WhatCannotBeReadIsNobodyKnown) {
  for (const char* json : {"", "[]", "{", "null", "{\"pid\":\"x\",\"owner\":7}", "\xff"}) {
    EXPECT_EQ(*read_owner(json), machine::OwnerInfo()) << json;
  }
  EXPECT_EQ(read_owner("{\"host\":\"h\",\"later\":1}")->host, "h");
}

TEST(OwnerJsonTest, ATextThatIsNotUtf8DoesNoHarm) {
  machine::OwnerInfo owner;
  owner.reason = "a\xff b";
  const std::string json = write_owner(std::make_shared<machine::OwnerInfo>(owner));
  EXPECT_NE(read_owner(json)->reason, "");
}

TEST(OwnerJsonTest, NumbersThatAreNoneCountAsUnknown) {
  EXPECT_EQ(read_owner(R"({"lock_delay_ms":-5})")->lock_delay, machine::Duration(0));
  EXPECT_EQ(read_owner(R"({"lock_delay_ms":9223372036854775807})")->lock_delay,
            std::chrono::hours(24));
  EXPECT_EQ(read_owner(R"({"pid":18446744073709551615})")->pid, 0);
  for (const char* token : {"-1", "12abc", "99999999999999999999", " 7", ""}) {
    const auto json = std::string(R"({"token":")") + token + R"("})";
    EXPECT_EQ(to_public(read_trace(json)).token, holdfast::Token{}) << json;
  }
}

TEST(OwnerJsonTest, OfABreakTheOneWhoDidItIsRead) {
  EXPECT_EQ(read_trace(R"({"token":"1","by":{"owner":"root"}})").by->owner, "root");
  EXPECT_EQ(*read_trace(R"({"by":7})").by, machine::OwnerInfo{});
}

// The form that is read without the JSON library, and its neighbours, which are not.
TEST(OwnerJsonTest, PlainAndEscapedOwnersAreRead) {
  const auto plain =
      read_owner(R"({"owner":"o","host":"h","pid":7,"program":"p","since_unix_ms":1700000000000,)"
                 R"("reason":"r"})");
  EXPECT_EQ(plain->host, "h");
  EXPECT_EQ(plain->reason, "r");
  EXPECT_EQ(plain->since_unix_ms, 1'700'000'000'000);
  EXPECT_EQ(*read_owner(write_owner(plain)), *plain);
  const auto escaped = read_owner(R"({"owner":"a\"b","host":"é","pid":1,"trace_id":"t"})");
  EXPECT_EQ(escaped->owner, "a\"b");
  EXPECT_EQ(escaped->host, "é");
  EXPECT_EQ(escaped->trace_id, "t");
  for (const char* text : {"x", R"({"owner":"o","host":"h","pid":x)",
                           "{\"owner\":\"\xff\",\"host\":\"h\",\"pid\":7,\"program\":\"p\","
                           "\"since_unix_ms\":1}"}) {
    EXPECT_EQ(*read_owner(text), machine::OwnerInfo{}) << text;
  }
  const std::string long_text(3000, 'x');
  EXPECT_EQ(read_owner(R"({"owner":")" + long_text + "\"}")->owner.size(), 2048U);
}

}  // namespace
}  // namespace holdfast::port
