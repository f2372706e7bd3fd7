// The script on a real Redis.
#include <gtest/gtest.h>

#include "holdfast/fence/redis.h"
#include "tests/fence/zombie_scene.h"
#include "tests/support/redis_server.h"

namespace holdfast::fence::redis {
namespace {

using support::RedisServer;

class FenceRedisLiveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_REDIS();
    static RedisServer instance;
    server_ = &instance;
    server_->flushall();
  }
  Result<void> send(const Result<std::vector<std::string>>& words) {
    if (!words) return words.error();
    reply_ = server_->command(*words);
    if (reply_.is_error()) return refusal(reply_.text);
    return {};
  }
  Errc set(const Token& token, const std::string& value, const Mode& mode = Mode::exclusive()) {
    const auto sent = send(guarded_set("stock", value, token, mode));
    return sent ? Errc{} : sent.error().code();
  }
  std::string get(const std::string& key) { return server_->must({"GET", key}).text; }

  RedisServer* server_ = nullptr;
  support::Reply reply_;
};

TEST_F(FenceRedisLiveTest, RefusesTheLateWriteOfAZombie) {
  play_zombie_scene(
      [&](const Token& token, int items) {
        return send(guarded_set("stock", std::to_string(items), token));
      },
      [&] { return std::stoi(get("stock")); });
}

// Its neighbour is the same number to Lua.
TEST_F(FenceRedisLiveTest, ComparesTextAndNotNumbers) {
  EXPECT_EQ(set(Token{0, 9007199254740993ULL}, "new"), Errc{});
  EXPECT_EQ(set(Token{0, 9007199254740992ULL}, "old"), Errc::kLost);
  EXPECT_EQ(set(Token{0, ~0ULL}, "newest"), Errc{});
  EXPECT_EQ(set(Token{1, 1}, "next epoch"), Errc{});
  EXPECT_EQ(set(Token{0, ~0ULL}, "old"), Errc::kLost);
  EXPECT_EQ(get("stock"), "next epoch");
}

TEST_F(FenceRedisLiveTest, SharedTokensMustExceedAndAreNotRecorded) {
  EXPECT_EQ(set(Token{0, 5}, "a"), Errc{});
  EXPECT_EQ(set(Token{0, 9}, "b", Mode::shared()), Errc{});
  EXPECT_EQ(set(Token{0, 5}, "c", Mode::shared()), Errc::kLost);
  EXPECT_EQ(set(Token{0, 6}, "d"), Errc{});
  EXPECT_EQ(get("holdfast-fence:{stock}"), (Token{0, 6}).to_string());
}

TEST_F(FenceRedisLiveTest, ABodyOfOnesOwnRunsForTheNewestHolderOnly) {
  const auto take = [&](const Token& token) {
    return send(guarded_eval("return redis.call('INCRBY', KEYS[3], ARGV[3])",
                             {"{shop}:stock", "{shop}:sold"}, {"2"}, token));
  };
  EXPECT_TRUE(take(Token{0, 5}).has_value());
  EXPECT_TRUE(take(Token{0, 6}).has_value());
  EXPECT_FALSE(take(Token{0, 5}).has_value());
  EXPECT_EQ(get("{shop}:sold"), "4");
}

TEST_F(FenceRedisLiveTest, ARecordThatIsNoTokenAdmitsNobody) {
  for (const char* text : {"", "5", "zzz", "0000000000.0000000000000000000a"}) {
    server_->must({"SET", "holdfast-fence:{stock}", text});
    EXPECT_EQ(set(Token{1, 0}, "x"), Errc::kCorruptState) << text;
  }
  server_->must({"DEL", "holdfast-fence:{stock}"});
  server_->must({"LPUSH", "holdfast-fence:{stock}", "x"});
  EXPECT_EQ(set(Token{1, 0}, "x"), Errc::kCorruptState);
  EXPECT_EQ(get("stock"), "");
}

TEST_F(FenceRedisLiveTest, RecordAndDataShareTheirSlot) {
  RedisServer cluster({.config = {"cluster-enabled yes"}});
  const auto slot = [&](const std::string& of) {
    return cluster.must({"CLUSTER", "KEYSLOT", of}).integer;
  };
  int named = 0;
  for (const char* key : {"stock", "{shop}:stock", "a{b", "x{a}{b}", "{a", "a{}b", "a}b"}) {
    const auto record = record_key(key);
    if (!record) continue;  // No other key of this slot can be named.
    EXPECT_EQ(slot(*record), slot(key)) << key;
    ++named;
  }
  EXPECT_EQ(named, 5);
}

TEST_F(FenceRedisLiveTest, AnUnreadableTokenIsTheCallersMistake) {
  auto words = *guarded_set("stock", "9", Token{0, 5});
  words[5] = "5";
  EXPECT_EQ(send(words).error().code(), Errc::kInvalidArgument);
  EXPECT_EQ(get("stock"), "");
}

#ifdef HOLDFAST_EXAMPLE_FENCE
TEST_F(FenceRedisLiveTest, TheExampleRefusesTheZombie) {
  const std::string said =
      support::run({HOLDFAST_EXAMPLE_FENCE, "redis", std::to_string(server_->port())});
  EXPECT_NE(said.find("refused"), std::string::npos) << said;
}
#endif

}  // namespace
}  // namespace holdfast::fence::redis
