// Random commands on take.lua and hold.lua at a real server, and on node_model.h: every answer is
// compared. The clock of the scripts is the last word of each command.
//
// HOLDFAST_REDLOCK_SEED=N replays one sequence.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/stores/redlock/script_texts.h"
#include "tests/redlock/node_model.h"
#include "tests/support/redis_server.h"

namespace holdfast::testing::redlock {
namespace {

using N = std::int64_t;
using Model = NodeModel<N, 2, 3>;
using support::RedisServer;
namespace texts = stores::redlock::script_texts;

constexpr N kStart = 1'700'000'000'000'000;
constexpr N kLongest = 60'000'000;

std::string with_test_clock(std::string_view source) {
  std::string text(source);
  const std::string time = "redis.call('TIME')";
  text.replace(text.find(time), time.size(),
               "{string.sub(ARGV[#ARGV], 1, 10), string.sub(ARGV[#ARGV], 11, 16)}");
  return text;
}

class Pair {
 public:
  Pair(RedisServer& server, std::uint32_t seed)
      : server_(server), connection_(server.connect()), random_(seed) {
    server_.flushall();
    change_memory();
    names_[model_.memory] = names_[0];
  }

  void step() {
    switch (draw(24)) {
      case 0: return lose();
      case 1: return restart();
      case 2: now_ += draw(30'000'000); return;
      case 3:
      case 4: return join();
      case 5: return rejoin();
      case 6: return distrust();
      case 7:
      case 8:
      case 9:
      case 10:
      case 11: return acquire();
      case 12:
      case 13:
      case 14: return confirm();
      case 15:
      case 16: return renew();
      case 17: return keep();
      case 18:
      case 19:
      case 20: return release();
      case 21: return break_lock();
      default: now_ += draw(3'000'000);
    }
  }
  int granted() const { return granted_; }

 private:
  N draw(N below) {
    return static_cast<N>(random_() % static_cast<std::uint64_t>(below));  // The same everywhere.
  }
  N cluster() { return draw(30) == 0 ? 2 : 1; }
  N knows() { return draw(12) == 0 ? model_.memory + 1 : known_; }

  // A restart and a promotion both give the process another replication id.
  void change_memory() {
    server_.must({"DEBUG", "CHANGE-REPL-ID"});
    names_[0] = server_.info("replication", "master_replid");
  }
  void lose() {
    server_.flushall();
    change_memory();
    model_.lose_memory(model_.memory + 1);
    names_[model_.memory] = names_[0];
  }
  void restart() {
    change_memory();
    model_.restart(model_.memory + 1);
    names_[model_.memory] = names_[0];
  }

  std::string name_of(N memory) {
    const auto found = names_.find(memory);
    return found != names_.end() ? found->second : std::string(40, 'f');
  }
  static std::string id(std::size_t number) {
    return std::string(31, '0') + std::to_string(number);
  }

  std::string ask(std::string_view script, const std::string& op, N cluster, N memory,
                  std::size_t lock, std::vector<std::string> args) {
    std::vector<std::string> words{"EVAL", with_test_clock(script), "2", "hfr1@node",
                                   "hfr1:" + std::to_string(lock), op,
                                   std::to_string(cluster), name_of(memory)};
    words.insert(words.end(), args.begin(), args.end());
    words.push_back(std::to_string(kStart + now_));
    const auto reply = connection_.command(words);
    trace_ = op;
    for (const std::string& arg : args) trace_ += " " + arg;
    EXPECT_FALSE(reply.is_error()) << reply.text << " to " << trace_;
    return reply.text;
  }
  void same(const std::string& said, const Answer<N>& answer) {
    EXPECT_EQ(said, text(answer)) << trace_;
    if (answer.word == Word::kGranted) ++granted_;
  }

  std::string text(const Answer<N>& answer) const {
    const auto number = [](N value) { return " " + std::to_string(value); };
    switch (answer.word) {
      case Word::kGranted: return "granted" + number(answer.a);
      case Word::kBusy: return "busy" + number(answer.a);
      case Word::kEnded: return "ended";
      case Word::kTooLong: return "toolong";
      case Word::kLost: return "lost";
      case Word::kForeign: return "foreign the list";
      case Word::kQuarantine: return "quarantine" + number(answer.a);
      case Word::kConfirmed: return "confirmed";
      case Word::kNotHeld: return "notheld";
      case Word::kHeld: return "held" + number(answer.a) + number(answer.b) + number(answer.c);
      case Word::kGone: return "gone";
      case Word::kBroken: return answer.a != 0 ? "broken" : "broken by root";
      case Word::kReleased: return "released";
      case Word::kReady: return "ready";
      case Word::kRefused: return "refused";
      case Word::kJoined: break;
    }
    return std::string("joined ") + (answer.a != 0 ? "ready" : "lost") +
           number(kStart + answer.b) + number(answer.c) + number(answer.d);
  }

  void join() {
    const bool init = draw(6) == 0;
    const N asked = cluster();
    const N floor = draw(50);
    std::vector<std::string> args{std::to_string(kLongest / 1000), "the list"};
    if (init) args.push_back(std::to_string(floor));
    std::string said = ask(texts::kTake, init ? "init" : "join", asked, known_, 0, args);
    std::istringstream words(said);
    std::string word, run, memory, state, ends, has, now, fresh;
    words >> word >> run >> memory >> state >> ends >> has >> now >> fresh;
    if (word == "joined") {
      EXPECT_EQ(memory, name_of(model_.memory));
      EXPECT_EQ(run, server_.info("server", "run_id"));
      EXPECT_EQ(now, std::to_string(kStart + now_));
      said = word + " " + state + " " + ends + " " + has + " " + fresh;
      known_ = model_.memory;
    }
    same(said, model_.join(asked, kLongest, now_, init, floor));
  }
  void rejoin() {
    const N asked = cluster(), memory = knows(), floor = draw(50);
    const N ends = draw(3) == 0 ? draw(100) : model_.ends;
    same(ask(texts::kTake, "rejoin", asked, memory, 0,
             {std::to_string(kStart + ends), std::to_string(floor)}),
         model_.rejoin(asked, memory, ends, floor, now_));
  }
  void distrust() {
    const N asked = cluster(), memory = knows();
    const N seen = draw(3) == 0 ? model_.floor : draw(50);
    same(ask(texts::kTake, "distrust", asked, memory, 0, {std::to_string(seen)}),
         model_.distrust(asked, memory, seen, now_));
  }
  void acquire() {
    const N asked = cluster(), memory = knows(), tag = 1 + draw(2), attempt = 1 + draw(4);
    const N ttl = draw(20) == 0 ? kLongest + 1 : 1 + draw(20'000'000);
    const auto lock = static_cast<std::size_t>(draw(2));
    const auto which = static_cast<std::size_t>(draw(3));
    same(ask(texts::kTake, "acquire", asked, memory, lock,
             {id(which), std::to_string(tag), std::to_string(attempt), "x", std::to_string(ttl),
              "0", "{}"}),
         model_.acquire(asked, memory, lock, which, tag, attempt, ttl, 0, now_));
  }
  void confirm() {
    const N asked = cluster(), memory = knows(), token = 1 + draw(60);
    const auto lock = static_cast<std::size_t>(draw(2));
    const auto which = static_cast<std::size_t>(draw(3));
    const auto& hold = model_.locks[lock].holds[which];
    const bool right = hold.is && draw(4) > 0;
    const N tag = right ? hold.tag : 1 + draw(2);
    const N attempt = right ? hold.attempt : 1 + draw(4);
    same(ask(texts::kHold, "confirm", asked, memory, lock,
             {id(which), std::to_string(tag), std::to_string(attempt), std::to_string(token)}),
         model_.confirm(asked, memory, lock, which, tag, attempt, token, now_));
  }
  void renew() {
    const N asked = cluster(), memory = knows(), seq = draw(9), token = 1 + draw(60);
    const N ttl = draw(20) == 0 ? kLongest + 1 : 1 + draw(20'000'000);
    const bool any = draw(4) == 0;
    const auto lock = static_cast<std::size_t>(draw(2));
    const auto which = static_cast<std::size_t>(draw(3));
    const N broken = model_.locks[lock].broken;
    const N named = draw(2) == 0 && broken != 0 ? broken : token;
    same(ask(texts::kHold, "renew", asked, memory, lock,
             {id(which), std::to_string(seq), std::to_string(ttl), std::to_string(named),
              any ? "any" : "-"}),
         model_.renew(asked, memory, lock, which, seq, ttl, named, any, now_));
  }
  void keep() {
    const N asked = cluster(), memory = knows(), seq = draw(9);
    const N ttl = 1 + draw(20'000'000);
    const bool any = draw(4) == 0;
    const auto lock = static_cast<std::size_t>(draw(2));
    const auto which = static_cast<std::size_t>(draw(3));
    same(ask(texts::kHold, "keep", asked, memory, lock,
             {id(which), std::to_string(seq), std::to_string(ttl), any ? "any" : "-"}),
         model_.keep(asked, memory, lock, which, seq, ttl, any, now_));
  }
  void release() {
    const N asked = cluster(), memory = knows(), tag = draw(3), attempt = 1 + draw(4);
    const bool late = draw(3) == 0;
    const auto lock = static_cast<std::size_t>(draw(2));
    const auto which = static_cast<std::size_t>(draw(3));
    same(ask(texts::kHold, "release", asked, memory, lock,
             {id(which), tag == 0 ? "-" : std::to_string(tag), std::to_string(attempt),
              late ? "late" : "-"}),
         model_.release(asked, memory, lock, which, tag, attempt, late, now_));
  }
  void break_lock() {
    const N asked = cluster(), memory = knows();
    const auto lock = static_cast<std::size_t>(draw(2));
    N token = 1 + draw(60);
    for (const auto& hold : model_.locks[lock].holds) {
      if (hold.is && hold.token != 0) token = hold.token;
    }
    const std::string said =
        ask(texts::kHold, "break", asked, memory, lock, {"-", std::to_string(token), "by root"});
    same(said.substr(0, said.find(' ')),
         model_.break_lock(asked, memory, lock, token, now_));
  }

  RedisServer& server_;
  support::RedisConnection connection_;
  std::mt19937_64 random_;
  Model model_;
  std::map<N, std::string> names_;  // The replication id of each memory; 0: of the last one.
  N known_ = 1;
  N now_ = 0;
  int granted_ = 0;
  std::string trace_;
};

TEST(RedlockModel, TheScriptsSayWhatTheModelSays) {
  HOLDFAST_NEEDS_REDIS();
  RedisServer server({.config = {"enable-debug-command yes"}});
  const char* const one = std::getenv("HOLDFAST_REDLOCK_SEED");
  const auto first = static_cast<std::uint32_t>(one != nullptr ? std::atoi(one) : 1);
  const std::uint32_t last = one != nullptr ? first : 8;
  int granted = 0;
  for (std::uint32_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("replay: HOLDFAST_REDLOCK_SEED=" + std::to_string(seed));
    Pair pair(server, seed);
    for (int i = 0; i < 1500 && !HasFailure(); ++i) pair.step();
    granted += pair.granted();
    if (HasFailure()) return;
  }
  EXPECT_GT(granted, 100) << "most commands were refused";
}

}  // namespace
}  // namespace holdfast::testing::redlock
