// Every script on a lock whose slot moves between two nodes, with its keys on either side.
//
// For each state of a lock and each way to divide its keys, a script either answers TRYAGAIN and
// changes nothing, or does exactly what it does on a single server.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/stores/redis/protocol/errors.h"
#include "src/stores/redis/protocol/scripts.h"
#include "tests/support/redis_cluster.h"

namespace holdfast::faults {
namespace {

using stores::redis::ScriptHost;
using stores::redis::ScriptName;
using support::RedisCluster;
using support::RedisServer;
using support::Reply;
using Words = std::vector<std::string>;
using Keys = std::map<std::string, std::string>;  // Key to its contents.

const std::string kKey = "hf1:{orders}";
// The last word of a request: it only has to lie in the slot of the lock.
const std::string kTag = "{orders}";
constexpr char kStart[] = "1799999999000000";
// In another hour, so that a renewal extends the value, too.
constexpr char kSecondLater[] = "1800000000500000";
constexpr char kMinuteLater[] = "1800000061000000";
constexpr char kLease[] = "60000000";

std::string client(char name) { return std::string(16, name); }
std::string id(char name) { return std::string(32, name); }

struct Step {
  const char* what;
  ScriptName script;
  Words args;
  const char* at = kSecondLater;
};

Step acquire(const char* what, char who, const std::string& terms, const char* issue = "1") {
  const std::string padded = std::string(15, '0') + issue;
  return {what, ScriptName::kAcquire, {client(who), id(who), padded, kLease, "{}",
                                       terms + " 60000000 0 -"}};
}
Step end(const char* what, char who, const char* how) {
  return {what, ScriptName::kEnd, {client(who), id(who), std::string(15, '0') + "1", how}};
}
Step renew(const char* what, char who, const char* at = kSecondLater) {
  return {what, ScriptName::kRenew, {client(who), id(who), "1", kLease, kLease}, at};
}

const std::string kWaits = "Pe 1 1 1";
const std::string kShares = "Qs 1 1 1";

struct State {
  const char* what;
  std::vector<Step> steps;
};

std::vector<State> states() {
  const Step first = {"", ScriptName::kAcquire,
                      {client('a'), id('a'), std::string(15, '0') + "1", kLease, "{}",
                       kWaits + " 60000000 0 -"},
                      kStart};
  return {
      {"no lock", {}},
      {"held", {first}},
      {"held with a value",
       {first, {"", ScriptName::kSetValue, {id('a'), "old", "v", "0", "0"}}}},
      {"free, with a mark", {first, end("", 'a', "release"), acquire("", 'b', kWaits),
                             end("", 'b', "release")}},
      {"shared", {acquire("", 'a', kShares), acquire("", 'b', kShares)}},
      {"held with a queue", {first, acquire("", 'b', kWaits), acquire("", 'c', kWaits)}},
  };
}

std::vector<Step> requests() {
  Step all = acquire("acquire_all", 'd', kWaits);
  all.script = ScriptName::kAcquireAll;
  return {
      acquire("acquire", 'd', kWaits),
      acquire("acquire at once", 'd', "Te 1 1 0"),
      acquire("acquire shared", 'd', kShares),
      acquire("acquire again", 'a', kWaits),
      all,
      end("release", 'a', "release"),
      end("cancel", 'b', "cancel"),
      end("cancel of nobody", 'd', "cancel"),
      renew("renew the holder", 'a'),
      renew("renew a waiter", 'b'),
      renew("renew nobody", 'd'),
      renew("renew after the end", 'a', kMinuteLater),
      {"downgrade", ScriptName::kDowngrade, {id('a')}},
      {"break", ScriptName::kBreak, {kStart, "{}"}},
      {"resize", ScriptName::kResize, {id('d'), client('d'), "3"}},
      {"set_value", ScriptName::kSetValue, {id('a'), "new", "v", "0", "0"}},
      {"inspect", ScriptName::kInspect, {}},
  };
}

Words words_of(const Step& step, ScriptHost host = ScriptHost::kCluster) {
  using namespace stores::redis;
  const Script& text = script(step.script, ScriptClock::kArgument, host);
  Words words = {"EVAL", text.text, "1", kKey};
  words.insert(words.end(), step.args.begin(), step.args.end());
  words.emplace_back(step.at);
  if (host == ScriptHost::kCluster) words.push_back(kTag);
  return words;
}

std::string text_of(const Reply& reply) {
  std::ostringstream text;
  text << reply;
  return text.str();
}

bool is_refusal(const std::string& answer) { return answer.find("TRYAGAIN") != std::string::npos; }

class SlotMoves : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (RedisServer::unavailable()) return;
    cluster_ = new RedisCluster({.primaries = 2});
    slot_ = cluster_->slot_of(kKey);
    from_ = cluster_->owner(slot_);
    single_ = new RedisServer();
  }
  static void TearDownTestSuite() {
    delete cluster_;
    delete single_;
    cluster_ = nullptr;
    single_ = nullptr;
  }
  void SetUp() override { HOLDFAST_NEEDS_REDIS(); }

  static RedisServer& source() { return cluster_->node(from_); }
  static RedisServer& importer() { return cluster_->node(1 - from_); }

  // All that a server has, also of a slot that it does not serve yet.
  static Keys kept_by(RedisServer& server) {
    Keys kept;
    for (const Reply& key : server.must({"KEYS", "*"}).elements) {
      if (&server != single_) server.must({"ASKING"});
      kept[key.text] = server.must({"DUMP", key.text}).text;
    }
    return kept;
  }

  static Keys make(const State& state) {
    single_->flushall();
    for (const Step& step : state.steps) single_->must(words_of(step));
    return kept_by(*single_);
  }

  static void put(RedisServer& server, const Keys& keys) {
    server.flushall();
    for (const auto& [key, contents] : keys) server.must({"RESTORE", key, "0", contents});
  }

  // The source has the keys, except `moved`.
  static void divide(const Keys& keys, const Words& moved) {
    cluster_->abandon_move(slot_, 1 - from_);
    importer().flushall();
    put(source(), keys);
    cluster_->open_move(slot_, 1 - from_);
    cluster_->move_keys(moved, from_, 1 - from_);
  }

  // As a client that follows redirections.
  static std::string ask(const Step& step, ScriptHost host = ScriptHost::kCluster) {
    const Reply here = source().command(words_of(step, host));
    if (here.error_code() != "ASK") return text_of(here);
    importer().must({"ASKING"});
    return text_of(importer().command(words_of(step, host)));
  }

  static Keys kept_by_both() {
    Keys all = kept_by(source());
    for (const auto& [key, contents] : kept_by(importer())) {
      EXPECT_TRUE(all.emplace(key, contents).second) << key << " is at both nodes";
    }
    return all;
  }

  // As the first of two locks in a batch, which the client sends to the source only. The second
  // one's slot stays.
  static std::string ask_in_a_batch(const Step& step) {
    using namespace stores::redis;
    std::string text = script(step.script, ScriptClock::kServer, ScriptHost::kCluster).text;
    const std::string at = step.at;
    const std::string time = "redis.call('TIME')";
    const std::string stopped = "{'" + at.substr(0, 10) + "', '" + at.substr(10) + "'}";
    for (std::size_t from = text.find(time); from != text.npos; from = text.find(time)) {
      text.replace(from, time.size(), stopped);
    }
    const std::string other = other_key();
    Words words = {"EVAL", text, "0"};
    words.insert(words.end(), step.args.begin(), step.args.end());
    words.insert(words.end(), step.args.begin() + 1, step.args.end());
    words.insert(words.end(), {kKey, other, kTag, other.substr(4)});
    const Reply both = source().command(words);
    EXPECT_EQ(both.elements.size(), 2U) << both;
    if (both.elements.size() != 2) return {};
    EXPECT_FALSE(both.elements[1].is_error()) << both << ": one lock's move is not another's";
    for (const char* part : {"", ":t", ":h", ":w", ":q", ":m"}) {
      source().must({"DEL", other + part});
    }
    return text_of(both.elements[0]);
  }
  static std::string other_key() {
    for (int i = 0;; ++i) {
      const std::string key = "hf1:{other" + std::to_string(i) + "}";
      const int slot = cluster_->slot_of(key);
      if (slot != slot_ && cluster_->owner(slot) == from_) return key;
    }
  }

  // Returns whether it did its work.
  static bool check(const Keys& before, const Words& moved, const Step& step) {
    put(*single_, before);
    const std::string expected = text_of(single_->command(words_of(step)));
    divide(before, moved);
    const std::string answer = ask(step);
    const Keys after = kept_by_both();
    if (is_refusal(answer)) {
      EXPECT_EQ(after, before) << "changed in spite of " << answer;
      return false;
    }
    EXPECT_EQ(answer, expected);
    EXPECT_EQ(after, kept_by(*single_)) << "done by halves: " << answer;
    return true;
  }

  static RedisCluster* cluster_;
  static RedisServer* single_;
  static int slot_;
  static std::size_t from_;
};

RedisCluster* SlotMoves::cluster_ = nullptr;
RedisServer* SlotMoves::single_ = nullptr;
int SlotMoves::slot_ = 0;
std::size_t SlotMoves::from_ = 0;

Words subset(const Keys& keys, unsigned number) {
  Words chosen;
  unsigned bit = 0;
  for (const auto& [key, contents] : keys) {
    if ((number >> bit++ & 1U) != 0) chosen.push_back(key);
  }
  return chosen;
}

std::string join(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += " " + word;
  return text;
}

TEST_F(SlotMoves, AScriptIsWholeOrNothing) {
  for (const State& state : states()) {
    const Keys keys = make(state);
    for (unsigned number = 0; number < 1U << keys.size(); ++number) {
      const Words moved = subset(keys, number);
      for (const Step& step : requests()) {
        SCOPED_TRACE(std::string(state.what) + ", " + step.what + ", moved:" + join(moved));
        check(keys, moved, step);
        if (HasFailure()) return;
      }
    }
  }
}

// A batch cannot be redirected, because it declares no keys. A lock that is not wholly here is left
// to a request of its own.
TEST_F(SlotMoves, AScriptInABatchIsWholeOrNothing) {
  int left = 0, done = 0;
  for (const State& state : states()) {
    const Keys keys = make(state);
    for (unsigned number = 0; number < 1U << keys.size(); ++number) {
      const Words moved = subset(keys, number);
      for (const Step& step : requests()) {
        const bool joins = step.args.size() > 3 &&
                           (step.script == ScriptName::kAcquire || step.script == ScriptName::kEnd);
        if (!joins) continue;
        SCOPED_TRACE(std::string(state.what) + ", " + step.what + ", moved:" + join(moved));
        put(*single_, keys);
        const std::string expected = text_of(single_->command(words_of(step)));
        divide(keys, moved);
        const std::string answer = ask_in_a_batch(step);
        const bool refused =
            is_refusal(answer) || answer.find("HOLDFAST-ALONE") != std::string::npos;
        ++(refused ? left : done);
        EXPECT_EQ(kept_by_both(), refused ? keys : kept_by(*single_)) << answer;
        if (!refused) {
          EXPECT_EQ(answer, expected);
        }
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(left, 0);
  EXPECT_GT(done, 0);
}

// Shows that the comparison above can fail: the single server's scripts do not look before they
// write.
TEST_F(SlotMoves, TheSingleServersScriptsWouldStopInTheirMiddle) {
  const Keys keys = make(states().back());
  int halves = 0;
  for (const auto& [key, contents] : keys) {
    for (const Step& step : requests()) {
      divide(keys, {key});
      const std::string answer = ask(step, ScriptHost::kServer);
      const bool failed = answer.find("(error)") != std::string::npos;
      if (failed && kept_by_both() != keys) ++halves;
    }
  }
  EXPECT_GT(halves, 0);
}

// Holders must not lose what they hold because an operator moves slots.
TEST_F(SlotMoves, RenewalsGoOnWhereTheirKeysAre) {
  for (const State& state : states()) {
    const Keys keys = make(state);
    if (!keys.contains(kKey) || std::string(state.what).starts_with("free")) continue;
    for (unsigned number = 0; number < 1U << keys.size(); ++number) {
      const Words moved = subset(keys, number);
      // The marks, the value and the trace are not needed.
      std::set<bool> sides;
      for (const auto& [key, contents] : keys) {
        const bool needed = key == kKey || std::string("thwq").find(key.back()) != key.npos;
        if (needed) sides.insert(std::find(moved.begin(), moved.end(), key) != moved.end());
      }
      SCOPED_TRACE(std::string(state.what) + ", moved:" + join(moved));
      EXPECT_EQ(check(keys, moved, renew("renew", 'a')), sides.size() == 1);
    }
  }
}

// Where an eviction took a part of a lock, a single server goes on with a free lock. A cluster
// cannot tell that from keys that are on their way.
TEST_F(SlotMoves, AMissingPartIsNeverAFreeLock) {
  cluster_->abandon_move(slot_, 1 - from_);
  importer().flushall();
  const Keys keys = make(states().back());
  for (const char* part : {":t", ":h", ":w", ":q"}) {
    Keys rest = keys;
    rest.erase(kKey + part);
    for (const Step& step : requests()) {
      SCOPED_TRACE(std::string(step.what) + " without " + part);
      put(source(), rest);
      const std::string answer = text_of(source().command(words_of(step)));
      if (step.script == ScriptName::kInspect && std::string(part) != ":t") continue;
      EXPECT_TRUE(is_refusal(answer)) << answer;
      EXPECT_EQ(kept_by(source()), rest);
    }
  }
}

// A client that lost its slot to another node sees the server's own words.
TEST_F(SlotMoves, TheServersWordsForAForeignKeyLeaveTheOutcomeOpen) {
  const Keys keys = make(states().at(1));
  divide(keys, {});
  const std::string text = "redis.call('SET', KEYS[1], '1') redis.call('GET', KEYS[1] .. ':m')";
  const Reply told = source().command({"EVAL", text, "1", kKey});
  ASSERT_TRUE(told.is_error()) << told;
  const Error error = stores::redis::to_error(
      {stores::redis::Reply::Kind::kError, 0, told.text, {}}, "a request");
  EXPECT_EQ(error.code(), Errc::kOutcomeUnknown) << error.message();
}

}  // namespace
}  // namespace holdfast::faults
