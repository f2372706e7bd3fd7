// The commands of lock libraries, word by word, and Holdfast's own beside them.
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/clock.h"
#include "src/server/front/libraries/library_scripts.h"
#include "src/server/front/libraries/sha1.h"
#include "src/server/testing/plain_client.h"
#include "src/server/testing/sim_journal.h"
#include "src/server/testing/stand_in.h"
#include "tests/support/eventually.h"

namespace holdfast::server {
namespace {

using testing::request;
using testing::Socket;
using testing::start;

constexpr const char* kRelease = "c3f8721cbb97f72bc19e972846bd7aaf91901658";  // redis-py
constexpr const char* kExtend = "a4e8783852e6b949f9ef3a97212805108459a890";   // redis-py
constexpr const char* kRedsyncRelease = "e950836ed1e694540c503ef9972b8de518044d3b";
constexpr const char* kExtendOrTake = "b6b55c439e02c6f52ffb8be7ec8c0d0ac816ea79";  // redsync
constexpr const char* kObtain = "80a1b5f2cfccec3b7119ba7721d2127682b691a7";        // redislock
constexpr const char* kTimeLeft = "6484da7d58920897fdc22b7f9afd1a3d47524ea8";      // redislock
constexpr const char* kTakeAll = "96da70f7716f27d278a5218544df37fd8b0a5e4c";       // node-redlock
constexpr const char* kExtendAll = "aed6f382e410db8ba7926d4e5e9aab410bf2a78a";
constexpr const char* kReleaseAll = "e4612211c9f8f51c257e26e056b0a654b3187242";
constexpr const char* kRTake = "149c5a8bf18676fd99e9e6e24923bd64d9b62f94";  // Redisson
constexpr const char* kRUnlock = "6866459238a13a701d42f4971f12d9f3a50e2442";
constexpr const char* kRForce = "605e338249a7a1d40df83b04f7658354f883b41b";
constexpr const char* kRRenew = "6a3d31570dc6f4b0bd32bcdc8e75667747c6f635";

constexpr const char* kNil = "$-1\r\n";
constexpr const char* kOk = "+OK\r\n";

std::string eval_request(const std::string& sha1, const std::vector<std::string>& keys,
                         const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"EVALSHA", sha1, std::to_string(keys.size())};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  return request(words);
}

class LibraryLocksTest : public ::testing::Test {
 protected:
  std::string ask(const std::vector<std::string>& words) const {
    return socket_.ask(request(words));
  }
  std::string set(const std::string& name, const std::string& value) const {
    return ask({"SET", name, value, "NX", "PX", "60000"});
  }
  std::string eval(const std::string& sha1, const std::vector<std::string>& keys,
                   const std::vector<std::string>& arguments) const {
    return socket_.ask(eval_request(sha1, keys, arguments));
  }
  int pttl(const std::string& name) const { return std::stoi(ask({"PTTL", name}).substr(1)); }
  std::string unlock(const std::string& who, const std::string& latch,
                     const std::string& latch_ms = "20000") const {
    return eval(kRUnlock, {"r", "redisson_lock__channel:{r}", latch},
                {"0", "60000", who, "PUBLISH", latch_ms});
  }
  // As Holdfast's own client would.
  std::string own_acquire(const std::string& name) const {
    const Socket own(server_.address());
    own.ask(request({"HF1", "attach", "0"}));
    return own.ask(
        request({"HF1", "acquire", "1", "hf1:{" + name + "}", "client", std::string(32, '1'),
                 "0000000000000001", "60000000", "{}", "Te 1 1 0 0 0 -"}));
  }

  const Server server_ = start();
  const Socket socket_{server_.address()};
};

TEST_F(LibraryLocksTest, SetTakesAFreeLockInEveryOrderOfItsOptions) {
  EXPECT_EQ(ask({"SET", "a", "one", "NX", "PX", "60000"}), kOk);
  EXPECT_EQ(ask({"set", "a", "two", "px", "60000", "nx"}), kNil);
  EXPECT_EQ(ask({"GET", "a"}), "$3\r\none\r\n");
  EXPECT_EQ(ask({"set", "b", "two", "ex", "60", "nx"}), kOk);
  EXPECT_GT(pttl("b"), 50'000);
  EXPECT_EQ(ask({"EXISTS", "a", "b", "c"}), ":2\r\n");
  EXPECT_EQ(ask({"DEL", "a", "c"}), ":1\r\n");
  EXPECT_EQ(ask({"GET", "a"}), kNil);
  EXPECT_EQ(pttl("a"), -2);
}

TEST_F(LibraryLocksTest, ItEndsWithItsLease) {
  ASSERT_EQ(ask({"SET", "short", "one", "NX", "PX", "100"}), kOk);
  while (set("short", "two") != kOk) ASSERT_NE(ask({"GET", "short"}), "$3\r\ntwo\r\n");
  EXPECT_EQ(ask({"GET", "short"}), "$3\r\ntwo\r\n");
  EXPECT_EQ(eval(kRelease, {"short"}, {"one"}), ":0\r\n");
}

TEST_F(LibraryLocksTest, WhatWouldNotBeALockIsRefused) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"SET", "a", "v"},
           {"SET", "a", "v", "PX", "1000"},
           {"SET", "a", "v", "NX"},
           {"SET", "a", "v", "NX", "PX", "99"},
           {"SET", "a", "v", "NX", "PX", "86400001"},
           {"SET", "a", "v", "NX", "EX", "-9223372036854775807"},
           {"SET", "a", "v", "NX", "PX"},
           {"SET", "a", "v", "NX", "PX", "1000", "GET"},
           {"SET", "", "v", "NX", "PX", "1000"},
           {"SET", "steps/../record", "v", "NX", "PX", "1000"},
           {"GET", "steps/../record"},
           {"DEL", "steps/.."},
           {"EXISTS", ".."},
           {"SET", "a", "v", "NX", "PXAT", "1000"},
           {"SET", "a", "v", "NX", "KEEPTTL"},
           {"SET", "a", std::string(513, 'v'), "NX", "PX", "1000"},
           {"EVAL", "return 1", "0"},
           {"EVALSHA", kRelease, "2", "a", "b", "v"},
           {"EVALSHA", kRelease, "1", "a"},
           {"EVALSHA", kTakeAll, "0", "v", "1000"},
           {"EVALSHA", kRUnlock, "1", "a", "0", "1000", "o", "PUBLISH", "1000"},
           {"EVALSHA", kRRenew, "99999999999", "a", "1000", "o"},
           {"SCRIPT", "LOAD", "return 1"},
           {"SCRIPT", "FLUSH"},
           {"PEXPIRE", "a", "x"},
           {"GET"}}) {
    EXPECT_TRUE(ask(words).starts_with("-ERR ")) << words[0] << ' ' << words.back();
  }
  EXPECT_TRUE(eval(std::string(40, 'a'), {"a"}, {"v"}).starts_with("-NOSCRIPT"));
  EXPECT_EQ(ask({"EXISTS", "a"}), ":0\r\n");
  EXPECT_NE(ask({"EVAL", "return 1", "0"}).find("e0e1f9fabfc9d4800c877a703b823ac0578ff8db"),
            std::string::npos);
}

TEST_F(LibraryLocksTest, ARefusalSaysWhatIsWrongWithThisCommand) {
  std::vector<std::string> many{"EXISTS"};
  for (int i = 0; i < 200; ++i) many.push_back("name" + std::to_string(i));
  const Socket first(server_.address());
  const std::string too_long = first.ask(request(many));
  EXPECT_NE(
      too_long.find("a request has at most 16 words, and this one has 201: begin with a short "
                    "request, AUTH or PING"),
      std::string::npos)
      << too_long;
  const std::pair<std::string, const char*> cases[] = {
      {ask({"SET", "a", "v", "NX", "PX", "1000", "EX", "1"}), "one timeout: PX or EX, once"},
      {ask({"SET", "a", "v", "NX", "PX"}), "PX needs a number"},
      {ask({"SET", "a", "v", "NX", "PX", "1000", "KEEPTTL"}), "it takes NX, and PX or EX"},
      {ask(many), "'EXISTS' takes 1 to 129 words, and has 200 here: spread its names over"},
      {ask({"GET", "a", "b"}), "'GET' takes 1 word, and has 2 here"},
      {eval(kTakeAll, {"a", "a"}, {"v", "60000"}), "'a' is named twice"},
      {eval(kRelease, {"a", "b"}, {"v"}), "takes 1 key and 1 word behind it"},
      {ask({"MULTI"}), "ERR unknown command 'MULTI': there are no transactions"},
      {ask({"WATCH", "a"}), "ERR unknown command 'WATCH': there are no transactions"},
      {ask({"SETNX", "a", "v"}), "SET NAME VALUE NX PX"},
      {ask({"TTL", "a"}), "use PTTL"},
      {ask({"LPUSH", "a", "v"}), "unknown command 'LPUSH'"}};
  for (const auto& [answer, why] : cases) {
    EXPECT_TRUE(answer.starts_with("-ERR ")) << answer;
    EXPECT_NE(answer.find(why), std::string::npos) << why << ": " << answer;
  }
  EXPECT_EQ(set("a", "v"), kOk);
  EXPECT_EQ(ask({"EXISTS", "a", "a"}), ":2\r\n") << "as Redis counts";
  EXPECT_EQ(ask({"DEL", "a", "a"}), ":1\r\n");
}

// No other client could name such a lock: not to wait for it, to look at it or to break it.
TEST_F(LibraryLocksTest, ANameThatOtherClientsCannotWriteIsRefused) {
  const std::pair<std::string, const char*> names[] = {
      {std::string(257, 'n'), "257 bytes"},
      {"a\x7f", "control character U+007F at byte 1"},
      {"orders/\xff", "not UTF-8 at byte 7"}};
  for (const auto& [name, why] : names) {
    for (const std::string& answer :
         {set(name, "v"), eval(kExtendOrTake, {name}, {"v", "60000"}),
          eval(kObtain, {name}, {"v", "1", "60000"}), eval(kTakeAll, {"a", name}, {"v", "60000"}),
          eval(kRTake, {name}, {"60000", "v"}), ask({"GET", name}), ask({"EXISTS", "a", name}),
          ask({"DEL", name}), ask({"PEXPIRE", name, "60000"}), ask({"PTTL", name}),
          ask({"HEXISTS", name, "v"}), eval(kRelease, {name}, {"v"})}) {
      EXPECT_TRUE(answer.starts_with("-ERR lock name '")) << answer;
      EXPECT_NE(answer.find(why), std::string::npos) << answer;
      EXPECT_NE(answer.find("holdfast.md"), std::string::npos) << answer;
    }
    EXPECT_EQ(ask({"EXISTS", "a"}), ":0\r\n") << "nothing was taken";
  }
  EXPECT_TRUE(own_acquire("orders/\xff").starts_with("-ERR ")) << "nor by the native call";
  EXPECT_EQ(set(std::string(256, 'n'), "v"), kOk);
  EXPECT_EQ(set("\xf0\x9f\x94\x92", "v"), kOk);
}

// The real ones are in tests/faults/library_locks_test.cc.
TEST_F(LibraryLocksTest, OtherObjectsOfRedissonAreRefusedByTheirNames) {
  const std::pair<std::string, std::string> cases[] = {
      {"redisson_lock_queue:{a}", "RFairLock"},
      {"redisson_lock_token:{a}", "RFencedLock"},
      {"{a}:id:1:rwlock_timeout", "RReadWriteLock"},
      {"redisson_sc:{a}", "RSemaphore"},
      {"redisson_countdownlatch__channel__{a}", "RCountDownLatch"}};
  for (const auto& [key, object] : cases) {
    const std::string said = ask({"EVAL", "return 1", "2", "a", key, "v"});
    EXPECT_NE(said.find("Redisson's " + object + ","), std::string::npos) << said;
  }
}

// Redisson 4 loads a script before it runs it, and then no key tells whose it is.
TEST_F(LibraryLocksTest, OtherObjectsOfRedissonAreRefusedByTheTextOfTheirScripts) {
  const std::pair<std::string, std::string> cases[] = {
      {"local firstThreadId2 = redis.call('lindex', KEYS[2], 0);", "RFairLock"},
      {"redis.call('incr', KEYS[2]);redis.call('hincrby', KEYS[1], ARGV[2], 1);", "RFencedLock"},
      {"return nil; end; if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then "
       "redis.call('hincrby', KEYS[1], ARGV[2], 1);",
       "RSpinLock (or of an RLock of older versions)"},
      {"== 1 then return redis.error_reply(ARGV[3]); end;", "RNonReentrantLock"},
      {"local mode = redis.call('hget', KEYS[1], 'mode');", "RReadWriteLock"},
      {"local fieldName = ARGV[i]..':'..lockThread..':expire_time';", "FasterMultiLock"},
      {"redis.call(ARGV[2], KEYS[2], ARGV[1]); return 1;end;return 0;",
       "RSemaphore or RPermitExpirableSemaphore"},
      {"local val = redis.call('decrby', KEYS[1], ARGV[1]);", "RSemaphore"},
      {"redis.call('zrem', KEYS[2], unpack(expiredIds));", "RPermitExpirableSemaphore"},
      {"redis.call('set', KEYS[1], ARGV[2]); redis.call(ARGV[3], KEYS[2], ARGV[1]);",
       "RCountDownLatch"}};
  for (const auto& [text, object] : cases) {
    const std::string said = ask({"SCRIPT", "LOAD", text});
    EXPECT_NE(said.find("Redisson's " + object + ", and"), std::string::npos) << said;
  }
  const std::string strange = ask({"SCRIPT", "LOAD", "return redis.call('incr', KEYS[2])"});
  EXPECT_NE(strange.find("of no lock library that this service knows: it holds locks only"),
            std::string::npos);
}

TEST_F(LibraryLocksTest, OnlyTheHolderReleasesAndExtends) {
  ASSERT_EQ(set("a", "mine"), kOk);
  EXPECT_EQ(eval(kRelease, {"a"}, {"other"}), ":0\r\n");
  EXPECT_EQ(eval(kExtend, {"a"}, {"other", "80000", "1"}), ":0\r\n");
  EXPECT_EQ(eval(kExtend, {"a"}, {"mine", "80000", "1"}), ":1\r\n");
  EXPECT_GT(pttl("a"), 70'000);
  EXPECT_EQ(eval(kExtend, {"a"}, {"mine", "80000", "0"}), ":1\r\n");
  EXPECT_GT(pttl("a"), 150'000);
  EXPECT_EQ(eval(kTimeLeft, {"a"}, {"other"}), ":-3\r\n");
  EXPECT_GT(std::stoi(eval(kTimeLeft, {"a"}, {"mine"}).substr(1)), 150'000);
  EXPECT_EQ(eval(kRedsyncRelease, {"a"}, {"other"}), ":0\r\n");
  EXPECT_EQ(eval(kRedsyncRelease, {"a"}, {"mine"}), ":1\r\n");
  EXPECT_EQ(eval(kRedsyncRelease, {"a"}, {"mine"}), ":-1\r\n");
  EXPECT_EQ(set("a", "mine"), kOk) << "the same value again";
}

TEST_F(LibraryLocksTest, TakeOrKeepAndExtendOrTake) {
  EXPECT_EQ(eval(kObtain, {"a"}, {"token+meta", "5", "60000"}), kOk);
  EXPECT_EQ(eval(kObtain, {"a"}, {"token+more", "5", "90000"}), kOk);
  EXPECT_GT(pttl("a"), 80'000);
  EXPECT_EQ(eval(kObtain, {"a"}, {"other+meta", "5", "60000"}), kNil);
  EXPECT_EQ(eval(kExtendOrTake, {"b"}, {"mine", "60000"}), ":1\r\n");
  EXPECT_EQ(eval(kExtendOrTake, {"b"}, {"mine", "60000"}), ":1\r\n");
  EXPECT_EQ(eval(kExtendOrTake, {"b"}, {"other", "60000"}), ":0\r\n");
}

TEST_F(LibraryLocksTest, SeveralLocksAreTakenTogetherOrNotAtAll) {
  EXPECT_EQ(eval(kTakeAll, {"a", "b"}, {"mine", "60000"}), ":2\r\n");
  EXPECT_EQ(eval(kTakeAll, {"b", "c"}, {"other", "60000"}), ":0\r\n");
  EXPECT_EQ(ask({"EXISTS", "c"}), ":0\r\n");
  EXPECT_EQ(eval(kExtendAll, {"a", "b"}, {"mine", "90000"}), ":2\r\n");
  EXPECT_EQ(eval(kExtendAll, {"a", "c"}, {"mine", "90000"}), ":0\r\n");
  EXPECT_EQ(eval(kReleaseAll, {"a", "c"}, {"mine"}), ":1\r\n");
  EXPECT_EQ(eval(kReleaseAll, {"a", "b"}, {"mine"}), ":1\r\n");
}

TEST_F(LibraryLocksTest, ABinaryValueComesBackAsItWas) {
  const std::string value("\0\xff%\r\n{\"}\\", 9);
  ASSERT_EQ(set("a", value), kOk);
  EXPECT_EQ(ask({"GET", "a"}), "$9\r\n" + value + "\r\n");
  EXPECT_EQ(eval(kRelease, {"a"}, {value}), ":1\r\n");
}

TEST_F(LibraryLocksTest, TheyAndOurClientsExcludeEachOther) {
  ASSERT_EQ(set("theirs", "mine"), kOk);
  EXPECT_NE(own_acquire("theirs").find("busy"), std::string::npos);
  ASSERT_NE(own_acquire("ours").find("held"), std::string::npos);
  EXPECT_EQ(set("ours", "mine"), kNil);
  EXPECT_EQ(eval(kRTake, {"ours"}, {"60000", "u:1"}).substr(0, 1), ":");
  EXPECT_EQ(eval(kTakeAll, {"ours", "free"}, {"mine", "60000"}), ":0\r\n");
  EXPECT_EQ(ask({"EXISTS", "ours"}), ":1\r\n");
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"DEL", "ours"}, {"PEXPIRE", "ours", "1000"}}) {
    EXPECT_NE(ask(words).find("'holdfast break'"), std::string::npos) << words[0];
  }
  EXPECT_NE(eval(kRForce, {"ours", "c"}, {"0", "PUBLISH"}).find("'holdfast break'"),
            std::string::npos);
  EXPECT_GT(pttl("ours"), 0);
}

// Rule 60: nor does any word of theirs tell what would end such a hold.
TEST_F(LibraryLocksTest, NoScriptTouchesAHoldOfOurClients) {
  ASSERT_NE(own_acquire("ours").find("held"), std::string::npos);
  EXPECT_EQ(ask({"GET", "ours"}), "$28\r\nheld by a client of Holdfast\r\n");
  for (const std::string& value : {std::string("held by a client of Holdfast"),
                                   std::string(32, '1'), std::string("client"), std::string()}) {
    EXPECT_EQ(eval(kRelease, {"ours"}, {value}), ":0\r\n");
    EXPECT_EQ(eval(kExtend, {"ours"}, {value, "80000", "1"}), ":0\r\n");
    EXPECT_EQ(eval(kExtendOrTake, {"ours"}, {value, "60000"}), ":0\r\n");
    EXPECT_EQ(eval(kObtain, {"ours"}, {value, "0", "60000"}), kNil);
    EXPECT_EQ(eval(kExtendAll, {"ours"}, {value, "60000"}), ":0\r\n");
    EXPECT_EQ(eval(kReleaseAll, {"ours"}, {value}), ":0\r\n");
    EXPECT_EQ(eval(kTimeLeft, {"ours"}, {value}), ":-3\r\n");
    EXPECT_EQ(ask({"HGET", "ours", value}), kNil);
    EXPECT_EQ(ask({"HEXISTS", "ours", value}), ":0\r\n");
    EXPECT_EQ(eval(kRRenew, {"ours"}, {"90000", value}), "*1\r\n:0\r\n");
    EXPECT_EQ(eval(kRUnlock, {"ours", "redisson_lock__channel:{ours}", "l" + value},
                   {"0", "60000", value, "PUBLISH", "20000"}),
              kNil);
  }
  EXPECT_NE(own_acquire("ours").find("held"), std::string::npos) << "it holds as before";
}

// Rule 58: no id is made of the value.
TEST_F(LibraryLocksTest, TwoClientsThatWriteTheSameValueDoNotBothHold) {
  ASSERT_EQ(set("a", "1"), kOk);
  const Socket second(server_.address());
  EXPECT_EQ(second.ask(request({"SET", "a", "1", "NX", "PX", "60000"})), kNil);
  EXPECT_EQ(second.ask(eval_request(kTakeAll, {"a", "b"}, {"1", "60000"})), ":0\r\n");
  EXPECT_EQ(ask({"EXISTS", "b"}), ":0\r\n");
}

TEST_F(LibraryLocksTest, SetTakesNoPlaceAmongReadersOrBeforeAQueue) {
  const Socket own(server_.address());
  own.ask(request({"HF1", "attach", "0"}));
  const auto acquire = [&](const std::string& name, char id, const std::string& terms) {
    return own.ask(request({"HF1", "acquire", "1", "hf1:{" + name + "}", "client",
                            std::string(32, id), "0000000000000001", "60000000", "{}", terms}));
  };
  const auto end = [&](const std::string& name, char id) {
    return own.ask(request({"HF1", "end", "1", "hf1:{" + name + "}", "client", std::string(32, id),
                            "0000000000000001", "release"}));
  };
  for (const char* terms : {"Ts 1 1 0 0 0 -", "Tp 1 3 0 0 0 -"}) {  // A reader, one of 3 permits.
    const std::string name = std::string("used-") + terms[1];
    ASSERT_NE(acquire(name, '1', terms).find("held"), std::string::npos);
    EXPECT_EQ(set(name, "v"), kNil);
    EXPECT_EQ(eval(kTakeAll, {name}, {"v", "60000"}), ":0\r\n");
    ASSERT_NE(end(name, '1').find("released"), std::string::npos);
  }
  ASSERT_EQ(set("queue", "v"), kOk);
  ASSERT_NE(acquire("queue", '2', "Te 1 1 1 60000000 0 -").find("waiting"), std::string::npos);
  EXPECT_EQ(set("queue", "w"), kNil);
  EXPECT_EQ(ask({"DEL", "queue"}), ":1\r\n");
  EXPECT_EQ(set("queue", "w"), kNil) << "the waiter goes first";
  EXPECT_NE(acquire("queue", '2', "Te 1 1 1 60000000 0 -").find("held"), std::string::npos);
}

TEST_F(LibraryLocksTest, VersionThreeHasItsOwnNothing) {
  ASSERT_EQ(ask({"HELLO", "3"}).substr(0, 1), "%");
  EXPECT_EQ(ask({"GET", "a"}), "_\r\n");
  ASSERT_EQ(set("a", "mine"), kOk);
  EXPECT_EQ(set("a", "other"), "_\r\n");
}

TEST_F(LibraryLocksTest, RedissonCountsItsHolds) {
  EXPECT_EQ(eval(kRTake, {"r"}, {"60000", "u:1"}), kNil);
  EXPECT_GT(std::stoi(eval(kRTake, {"r"}, {"60000", "u:2"}).substr(1)), 0);
  EXPECT_EQ(eval(kRTake, {"r"}, {"60000", "u:1"}), kNil);
  EXPECT_EQ(ask({"HGET", "r", "u:1"}), "$1\r\n2\r\n");
  EXPECT_EQ(ask({"HEXISTS", "r", "u:2"}), ":0\r\n");
  EXPECT_EQ(unlock("u:2", "l0"), kNil) << "not its own";
  EXPECT_EQ(unlock("u:1", "l1"), ":0\r\n");
  EXPECT_EQ(unlock("u:1", "l1"), ":0\r\n") << "sent again";
  EXPECT_EQ(ask({"HGET", "r", "u:1"}), "$1\r\n1\r\n");
  EXPECT_EQ(eval(kRRenew, {"r", "none"}, {"90000", "u:1", "u:1"}), "*2\r\n:1\r\n:0\r\n");
  EXPECT_GT(pttl("r"), 80'000);
  EXPECT_EQ(unlock("u:1", "l2"), ":1\r\n");
  EXPECT_EQ(unlock("u:1", "l2"), ":1\r\n") << "sent again";
  EXPECT_EQ(ask({"EXISTS", "r"}), ":0\r\n");
  // A later hold of the same thread begins at one.
  EXPECT_EQ(eval(kRTake, {"r"}, {"60000", "u:1"}), kNil);
  EXPECT_EQ(ask({"HGET", "r", "u:1"}), "$1\r\n1\r\n");
  EXPECT_EQ(eval(kRForce, {"r", "c"}, {"0", "PUBLISH"}), ":1\r\n");
  EXPECT_EQ(eval(kRForce, {"r", "c"}, {"0", "PUBLISH"}), ":0\r\n");
}

// Redisson that tries once gives 1 ms, and one that tries 20,000 times more than a day.
TEST_F(LibraryLocksTest, RedissonUnlocksWithAnyNumberOfTries) {
  for (const std::string latch_ms : {"1", "90000000", "9223372036854775807"}) {
    ASSERT_EQ(eval(kRTake, {"r"}, {"60000", "u:1"}), kNil);
    EXPECT_EQ(unlock("u:1", "l" + latch_ms, latch_ms), ":1\r\n") << latch_ms;
    EXPECT_EQ(ask({"EXISTS", "r"}), ":0\r\n");
  }
  for (const std::string latch_ms : {"0", "-1", "x"}) {
    EXPECT_TRUE(unlock("u:1", "l" + latch_ms, latch_ms).starts_with("-ERR ")) << latch_ms;
  }
}

// Beside a name lies the count of a latch, or the outcome of a once-guard.
TEST_F(LibraryLocksTest, RedissonsCountOverwritesNoValueOfOurs) {
  const std::string id(32, '1');
  const Socket own(server_.address());
  own.ask(request({"HF1", "attach", "0"}));
  ASSERT_NE(own_acquire("r").find("held"), std::string::npos);
  ASSERT_NE(own.ask(request({"HF1", "set_value", "1", "hf1:{r}", id, "count 3", "v", "0", "0"}))
                .find("done"),
            std::string::npos);
  own.ask(request({"HF1", "end", "1", "hf1:{r}", "client", id, "0000000000000001", "release"}));
  EXPECT_EQ(eval(kRTake, {"r"}, {"60000", "u:1"}), kNil);
  EXPECT_NE(eval(kRTake, {"r"}, {"60000", "u:1"}).find("another name"), std::string::npos);
  EXPECT_EQ(own.ask(request({"HF1", "value", "1", "hf1:{r}"})), "$7\r\ncount 3\r\n");
  EXPECT_EQ(unlock("u:1", "l"), ":1\r\n");
}

TEST_F(LibraryLocksTest, EveryReleaseWakesWhoeverListensForRedisson) {
  const Socket listener(server_.address());
  for (const auto& [lock, channel] : std::map<std::string, std::string>{
           {"r", "redisson_lock__channel:{r}"}, {"{tag}/r", "redisson_lock__channel:{tag}/r"}}) {
    ASSERT_NE(listener.ask(request({"SUBSCRIBE", channel})).find("subscribe"), std::string::npos);
    ASSERT_EQ(set(lock, "mine"), kOk);
    ASSERT_EQ(eval(kRelease, {lock}, {"mine"}), ":1\r\n");
    EXPECT_NE(listener.receive().find(channel + "\r\n$1\r\n0\r\n"), std::string::npos);
  }
}

TEST_F(LibraryLocksTest, ADelOfAnotherConnectionIsABreak) {
  const Socket watcher(server_.address());
  const Socket other(server_.address());
  ASSERT_NE(watcher.ask(request({"SUBSCRIBE", "hf1:w:w/"})).find("subscribe"), std::string::npos);
  const auto told = [&] {
    std::string all;
    const auto has = [&](const char* word) { return all.find(word) != std::string::npos; };
    while (!has("released") && !has("broken")) {
      const std::string more = watcher.receive();
      if (more.empty() || more == "nothing came") break;
      all += more;
    }
    return has("broken") ? "broken" : "released";
  };
  ASSERT_EQ(set("w/a", "mine"), kOk);
  EXPECT_EQ(ask({"DEL", "w/a"}), ":1\r\n");
  EXPECT_STREQ(told(), "released") << "its own";
  ASSERT_EQ(set("w/a", "mine"), kOk);
  EXPECT_EQ(other.ask(request({"DEL", "w/a"})), ":1\r\n");
  EXPECT_STREQ(told(), "broken");
  other.ask(request({"HF1", "attach", "0"}));
  EXPECT_NE(other.ask(request({"HF1", "inspect", "1", "hf1:{w/a}"})).find("DEL"), std::string::npos)
      << "it says how";
  EXPECT_EQ(eval(kRTake, {"w/r"}, {"60000", "u:1"}), kNil);
  EXPECT_EQ(eval(kRForce, {"w/r", "c"}, {"0", "PUBLISH"}), ":1\r\n");
  EXPECT_STREQ(told(), "broken");
}

// A library counts its lease from the answer. So the lease begins with it, or the answer is no.
TEST(LibraryLeaseTest, AGrantThatEndedBeforeItsAnswerIsNone) {
  std::atomic<int> readings{0};
  ServiceOptions service;
  service.now = [&readings, begin = base::BootClock::now()] {
    return begin + std::chrono::milliseconds(150) * ++readings;
  };
  const Server server = start({}, service);
  const Socket socket(server.address());
  for (const auto& [lease, answer] :
       std::map<std::string, std::string>{{"100", kNil}, {"60000", kOk}}) {
    EXPECT_EQ(socket.ask(request({"SET", lease, "mine", "NX", "PX", lease})), answer);
    const std::string both = eval_request(kTakeAll, {lease + "a", lease + "b"}, {"mine", lease});
    EXPECT_EQ(socket.ask(both), answer == kOk ? ":2\r\n" : ":0\r\n");
  }
  EXPECT_EQ(socket.ask(request({"EXISTS", "100", "100a", "100b"})), ":0\r\n");
}

// Redisson's script looks at the lock first, and the look waits for the commit of the release.
TEST(LibraryLeaseTest, AScriptThatLooksFirstTakesNothingForAClientThatHasGone) {
  testing::SimDisk disk;
  auto made = std::make_unique<testing::SimJournal>(disk);
  testing::SimJournal& journal = *made;
  testing::StandIn server("127.0.0.1:1");
  server.lead(0, std::move(made));
  const Socket other(server.address());
  EXPECT_EQ(other.ask(request({"SET", "a", "v", "NX", "PX", "60000"})), kOk);
  journal.hold_commits();
  EXPECT_EQ(other.ask(request({"DEL", "a"})), ":1\r\n");
  {
    const Socket gone(server.address());
    EXPECT_EQ(gone.ask(request({"PING"})), "+PONG\r\n");
    EXPECT_TRUE(gone.send(eval_request(kRTake, {"a"}, {"60000", "who"})));
  }
  EXPECT_TRUE(support::eventually([&] {
    const std::string info = other.ask(request({"INFO"}));
    return info.find("connected_clients:1\r") != std::string::npos;
  }));
  journal.let_commit();
  EXPECT_EQ(other.ask(request({"EXISTS", "a"})), ":0\r\n");
  EXPECT_EQ(other.ask(request({"EXISTS", "a"})), ":0\r\n") << "taken behind the first look";
}

TEST(ScriptSha1Test, IsThatOfTheStandard) {
  EXPECT_EQ(sha1_hex(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(sha1_hex("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(sha1_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(sha1_hex(std::string(1'000'000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

}  // namespace
}  // namespace holdfast::server
