#include "holdfast/fence/fence.h"

#include <rapidcheck.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace holdfast::fence {
namespace {

constexpr Token kFive{0, 5};

TEST(FenceTest, AnExclusiveTokenIsRefusedOnlyBelowTheRecordedOne) {
  EXPECT_EQ(*admit(Token{}, kFive), kFive);
  EXPECT_EQ(*admit(kFive, Token{0, 6}), (Token{0, 6}));
  EXPECT_EQ(*admit(kFive, kFive), kFive) << "a holder writes more than once";
  EXPECT_EQ(admit(kFive, Token{0, 4}).error().code(), Errc::kLost);
}

TEST(FenceTest, ASharedTokenMustExceedTheRecordedOneAndIsNotRecorded) {
  EXPECT_EQ(*admit(Token{}, kFive, Mode::shared()), Token{});
  EXPECT_EQ(*admit(kFive, Token{0, 9}, Mode::shared()), kFive);
  EXPECT_EQ(admit(kFive, kFive, Mode::shared()).error().code(), Errc::kLost);
  EXPECT_EQ(admit(kFive, Token{0, 4}, Mode::shared()).error().code(), Errc::kLost);
}

TEST(FenceTest, TheEpochCountsBeforeTheCounter) {
  EXPECT_EQ(*admit(Token{1, 900}, Token{2, 1}), (Token{2, 1}));
  EXPECT_EQ(admit(Token{2, 1}, Token{1, 900}).error().code(), Errc::kLost);
}

TEST(FenceTest, PermitsAreNotFenced) {
  const auto answer = admit(Token{}, kFive, Mode::permits(1, 3));
  EXPECT_EQ(answer.error().code(), Errc::kUnsupported);
  EXPECT_NE(answer.error().message().find("mutex"), std::string::npos) << "says what to do instead";
}

TEST(FenceTest, NoTokenIsNobodys) {
  EXPECT_EQ(admit(Token{}, Token{}).error().code(), Errc::kInvalidArgument);
  EXPECT_EQ(admit(Token{}, Token{}, Mode::shared()).error().code(), Errc::kInvalidArgument);
}

TEST(FenceTest, ARefusalNamesBothTokens) {
  const std::string text = admit(kFive, Token{0, 4}).error().message();
  EXPECT_NE(text.find(Token{0, 4}.to_string()), std::string::npos) << text;
  EXPECT_NE(text.find(kFive.to_string()), std::string::npos) << text;
}

TEST(FenceTest, OnlyTheFixedWidthIsReadAsAToken) {
  EXPECT_EQ(read_token(kFive.to_string()), kFive);
  for (const char* text : {"", "5", "0.5", "0000000000.0000000000000000005",
                           " 0000000000.00000000000000000005", "0000000000.0000000000000000000a",
                           "9999999999.00000000000000000000", "00000000000.0000000000000000005"}) {
    EXPECT_FALSE(read_token(text)) << text;
  }
}

TEST(FenceTest, NamesOfResourcesAreBoundedAndPrintable) {
  EXPECT_TRUE(check_resource("orders/42 \xc3\xa4").has_value());
  EXPECT_TRUE(check_resource(std::string(256, 'a')).has_value());
  for (const std::string& name :
       {std::string(), std::string(257, 'a'), std::string("a\nb"), std::string("a\0b", 3)}) {
    EXPECT_EQ(check_resource(name).error().code(), Errc::kInvalidArgument);
  }
}

TEST(MemoryRecordTest, RunsTheBodyOnlyForWhomItAdmits) {
  MemoryRecord record;
  int writes = 0;
  const auto write = [&](Token token) {
    return record.write("stock", token, Mode::exclusive(), [&] { ++writes; }).has_value();
  };
  EXPECT_TRUE(write(kFive));
  EXPECT_FALSE(write(Token{0, 4}));
  EXPECT_EQ(writes, 1);
  EXPECT_EQ(record.recorded("stock"), kFive);
  EXPECT_EQ(record.recorded("other"), Token{});
  EXPECT_TRUE(record.admit("other", Token{0, 1}).has_value()) << "each resource by itself";
}

TEST(MemoryRecordTest, KeepsTheTokenOfABodyThatThrew) {
  MemoryRecord record;
  const auto broken = [&] {
    (void)record.write("stock", kFive, Mode::exclusive(), [] { throw std::runtime_error("x"); });
  };
  EXPECT_THROW(broken(), std::runtime_error);
  EXPECT_EQ(record.recorded("stock"), kFive);
}

TEST(MemoryRecordTest, CheckAndBodyAreOneStepForManyThreads) {
  MemoryRecord record;
  std::vector<Token> written;
  std::vector<std::thread> threads;
  for (std::uint64_t first = 1; first <= 4; ++first) {
    threads.emplace_back([&record, &written, first] {
      for (std::uint64_t i = first; i < 400; i += 4) {
        const Token token{0, i};
        (void)record.write("stock", token, Mode::exclusive(), [&] { written.push_back(token); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(std::is_sorted(written.begin(), written.end()));
  EXPECT_EQ(record.recorded("stock"), (Token{0, 399}));
}

// A call of a random history; small numbers, so that they meet.
struct Call {
  std::uint8_t epoch = 0;
  std::uint8_t counter = 0;
  std::uint8_t mode = 0;
};

Mode mode_of(const Call& call) {
  if (call.mode % 8 == 0) return Mode::permits(1, 2);
  return call.mode % 2 == 0 ? Mode::shared() : Mode::exclusive();
}

// The rule in other words, with the whole history instead of a record.
bool may_pass(const std::vector<Token>& accepted, const Token& token, const Mode& mode) {
  if (mode.kind() == Mode::Kind::kPermits || token == Token{}) return false;
  return std::all_of(accepted.begin(), accepted.end(), [&](const Token& earlier) {
    return earlier < token || (earlier == token && mode.kind() == Mode::Kind::kExclusive);
  });
}

RC_GTEST_PROP(FencePropertyTest, TheRecordNeverFallsAndAdmitsByTheHistory,
              (const std::vector<std::tuple<std::uint8_t, std::uint8_t, std::uint8_t>>& words)) {
  Token recorded;
  std::vector<Token> accepted;
  for (const auto& [epoch, counter, mode_word] : words) {
    const Call call{epoch, counter, mode_word};
    const Token token{call.epoch % 3U, call.counter % 7U};
    const Mode mode = mode_of(call);
    const auto after = admit(recorded, token, mode);
    RC_ASSERT(after.has_value() == may_pass(accepted, token, mode));
    if (!after) continue;
    RC_ASSERT(*after >= recorded);
    recorded = *after;
    if (mode.kind() == Mode::Kind::kExclusive) accepted.push_back(token);
  }
}

RC_GTEST_PROP(FencePropertyTest, TextOfTokensIsOrderedAsTheTokensAre,
              (std::uint32_t epoch, std::uint64_t counter, std::uint32_t other_epoch,
               std::uint64_t other_counter)) {
  const Token one{epoch, counter};
  const Token other{*rc::gen::element(epoch, other_epoch), other_counter};
  RC_ASSERT((one < other) == (one.to_string() < other.to_string()));
  RC_ASSERT(read_token(one.to_string()) == one);
}

}  // namespace
}  // namespace holdfast::fence
