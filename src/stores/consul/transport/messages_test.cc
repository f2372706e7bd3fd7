#include "src/stores/consul/transport/messages.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/port/answer_limit.h"
#include "src/stores/consul/transport/errors.h"

namespace holdfast::stores::consul {
namespace {

using namespace std::chrono_literals;

TEST(ConsulMessagesTest, Base64ComesBack) {
  for (std::size_t length = 0; length < 70; ++length) {
    std::string bytes;
    for (std::size_t i = 0; i < length; ++i) bytes += static_cast<char>(i * 37 + length);
    const auto back = from_base64(to_base64(bytes));
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, bytes);
  }
  EXPECT_EQ(to_base64("hallo"), "aGFsbG8=");
  for (const char* bad : {"a", "ab=c", "====", "ab!=", "abc"})
    EXPECT_FALSE(from_base64(bad)) << bad;
}

TEST(ConsulMessagesTest, AListOfTwoHundredThousandNamesIsNotTooLarge) {
  const std::string name = "\"holdfast/l/" + std::string(40, 'n') + "/\",";
  EXPECT_LT(200'000 * memory_to_read(name), port::kMostAnswerMemory);
  EXPECT_GT(memory_to_read(std::string(1'000'000, '[')), port::kMostAnswerMemory);
}

TEST(ConsulMessagesTest, ATransactionSaysItsStepsInOrder) {
  Transaction all;
  all.check_index("a", 7).lock("b", "x", "id").erase("c");
  EXPECT_EQ(all.size(), 3U);
  EXPECT_EQ(all.body(),
            R"([{"KV":{"Verb":"check-index","Key":"a","Index":7}},)"
            R"({"KV":{"Verb":"lock","Key":"b","Value":"eA==","Flags":0,"Session":"id"}},)"
            R"({"KV":{"Verb":"delete","Key":"c"}}])");
}

TEST(ConsulMessagesTest, ATransactionThatWasCarriedOutGivesItsPairs) {
  const auto answer = read_transaction(
      {200, 0,
       R"({"Results":[{"KV":{"LockIndex":1,"Key":"a/x","Flags":7,"Value":"aGFsbG8=",)"
       R"("Session":"s","CreateIndex":11,"ModifyIndex":12}}],"Errors":null})"},
      "trying", false);
  ASSERT_TRUE(answer);
  ASSERT_TRUE(answer->done);
  ASSERT_EQ(answer->pairs.size(), 1U);
  EXPECT_EQ(answer->pairs[0].value(), "hallo");
  EXPECT_EQ(answer->pairs[0].created, 11U);
  EXPECT_EQ(answer->pairs[0].modified, 12U);
  EXPECT_EQ(answer->pairs[0].session, "s");
}

TEST(ConsulMessagesTest, ATransactionThatWasNotSaysWhichStepAndWhy) {
  const auto answer = read_transaction(
      {409, 0, R"({"Results":null,"Errors":[{"OpIndex":2,"What":"key \"a\" exists"}]})"}, "trying",
      false);
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->done);
  EXPECT_EQ(answer->failed_at, 2U);
  EXPECT_NE(answer->why.find("exists"), std::string::npos);
}

TEST(ConsulMessagesTest, ARefusalIsNoStepThatFailed) {
  const auto answer = read_transaction(
      {409, 0, R"({"Results":null,"Errors":[{"OpIndex":0,"What":"Permission denied"}]})"}, "trying",
      false);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Errc::kPermissionDenied);
}

TEST(ConsulMessagesTest, NonsenseIsAnError) {
  for (const char* body : {"", "x", "[]", "{}", "null", R"({"Results":[{"KV":{"Key":"a"}}]})",
                           R"({"Results":[{"KV":7}]})", R"({"Errors":[3]})"}) {
    const auto answer = read_transaction({200, 0, body}, "trying", false);
    if (answer) {
      EXPECT_TRUE(answer->pairs.empty()) << body;
    } else {
      EXPECT_EQ(answer.error().code(), Errc::kCorruptState) << body;
    }
  }
  EXPECT_FALSE(read_pairs({200, 0, "{}"}, "reading"));
  EXPECT_FALSE(read_keys({200, 0, "[1]"}, "reading"));
  EXPECT_FALSE(read_session_id({200, 0, R"({"ID":"../../x"})"}, "opening"));
  EXPECT_FALSE(is_session_id(R"(adf4238a-882b-9ddc-4a9d-5b6758e4159")"));
  EXPECT_TRUE(is_session_id("adf4238a-882b-9ddc-4a9d-5b6758e4159e"));
  EXPECT_TRUE(read_pairs({404, 9, ""}, "reading")->empty());
}

TEST(ConsulMessagesTest, ASessionTellsWhatItIs) {
  const auto told = read_session(
      {200, 0, R"([{"ID":"x","Name":"Lock","Node":"vm1","LockDelay":15000000000,"TTL":"1m5s"}])"});
  ASSERT_TRUE(told);
  EXPECT_EQ(told->name, "Lock");
  EXPECT_EQ(told->node, "vm1");
  EXPECT_EQ(told->lock_delay, 15s);
  EXPECT_EQ(told->ttl, 65s);
  const auto bare = read_session({200, 0, R"([{"ID":"x","LockDelay":9e30,"TTL":"","Name":7}])"});
  ASSERT_TRUE(bare);
  EXPECT_TRUE(bare->name.empty());
  EXPECT_FALSE(bare->ttl);
  for (const char* none : {"[]", "null", "x", "{}", "[3]"}) {
    EXPECT_FALSE(read_session({200, 0, none})) << none;
  }
  EXPECT_FALSE(read_session({403, 0, "Permission denied"}));
}

TEST(ConsulErrorsTest, EachCodeNamesTheNextStep) {
  const auto code = [](int status, const char* body, bool reads) {
    return to_error({status, 0, body}, "trying", reads).code();
  };
  EXPECT_EQ(code(403, "Permission denied", false), Errc::kPermissionDenied);
  EXPECT_EQ(code(500, "rpc error making call: ACL not found", false), Errc::kPermissionDenied);
  EXPECT_EQ(code(500, "No cluster leader", false), Errc::kUnavailable);
  EXPECT_EQ(code(500, "leadership lost while committing log", false), Errc::kOutcomeUnknown);
  EXPECT_EQ(code(500, "leadership lost while committing log", true), Errc::kUnavailable);
  EXPECT_EQ(code(500, "rpc error making call: EOF", false), Errc::kOutcomeUnknown);
  EXPECT_EQ(code(500, "rpc error making call: EOF", true), Errc::kUnavailable);
  EXPECT_EQ(code(429, "", false), Errc::kUnavailable);
  EXPECT_EQ(code(404, "page not found", true), Errc::kUnsupported);
}

TEST(ConsulErrorsTest, AMessageIsASentenceThatSaysWhatToDoNext) {
  const auto text = [](int status, const char* body) {
    return to_error({status, 0, body}, "trying", /*reads=*/true).message();
  };
  EXPECT_EQ(text(500, "No cluster leader"),
            "trying: the servers have no leader at present; try again, and if it lasts see that "
            "most of them run (Consul says 500: No cluster leader)");
  const std::vector<std::pair<int, const char*>> answers = {
      {403, "ACL not found"},  {403, "Permission denied"}, {403, ""},        {429, ""},
      {404, "page not found"}, {500, "not leader"},        {500, "no words"}};
  for (const auto& [status, words] : answers) {
    const std::string said = text(status, words);
    EXPECT_NE(said.find("; "), std::string::npos) << said;
    EXPECT_TRUE(said.ends_with(std::string(words) + ")")) << said;
    EXPECT_EQ(said.find("retry"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace holdfast::stores::consul
