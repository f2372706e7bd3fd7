// Redlock over five servers against a bare fan-out over the same kind of connections, in one run.
//
// A bare grant: one short script at all five nodes; when a majority has answered, another one at
// those; when a majority of them has answered, done. A bare pair adds a third script that deletes.
// Both sides use redis::Pipeline and one loop thread, and take turns.
//
//   one caller    the median time of a grant. Aim: at most 1.25 times the bare one.
//   no tokens     the same with one phase on both sides (tokens=no).
//   64 callers    pairs per second. Aim: at least 0.8 of the bare ones.
//
// own_*: the same bare loop with the store's own scripts. The difference to the store's figure is
// the client's part, and that to the bare one is the scripts'.
//
// server_us: the scripts' time at one node for a pair, as its commandstats have it.
#include <atomic>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <benchmark/benchmark.h>

#include "bench/figures.h"
#include "src/base/random.h"
#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/reply.h"
#include "src/stores/redis/protocol/scripts.h"
#include "src/stores/redis/transport/pipeline.h"
#include "src/stores/redlock/redlock_store.h"
#include "src/stores/redlock/script_texts.h"  // Generated from scripts/*.lua.
#include "tests/support/redlock_cluster.h"

namespace holdfast::bench {
namespace {

using namespace std::chrono_literals;
using base::BootClock;
using stores::redis::Pipeline;
using stores::redis::Reply;

constexpr std::size_t kNodes = 5;
constexpr std::size_t kMajority = 3;
constexpr int kCallers = 64;

class Loop final : public port::Loop, public port::Listener {
 public:
  Loop() : thread_([this] { io.run(); }) {}
  ~Loop() override {
    work_.reset();
    thread_.join();
  }
  void post(port::Task task) override { asio::post(io, std::move(task)); }
  void on_push(const port::Push&) override {}
  asio::io_context io{1};

 private:
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io);
  std::thread thread_;
};

// Both sides can do this. `done` is called on the loop.
class Locks {
 public:
  virtual ~Locks() = default;
  virtual void take(int caller, std::function<void()> done) = 0;
  virtual void give(int caller, std::function<void()> done) = 0;
};

std::string wire(const std::vector<std::string_view>& words) {
  std::string text;
  stores::redis::append_command(text, words);
  return text;
}

// The fan-out and nothing else. A derived class says what is sent.
class FanOut : public Locks {
 public:
  FanOut(Loop& loop, support::RedlockCluster& cluster, bool tokens)
      : loop_(loop), cluster_(cluster), tokens_(tokens) {
    for (std::size_t at = 0; at < kNodes; ++at) {
      stores::redis::RedisAddress address;
      address.port = cluster.node(at).port();
      nodes_.push_back(
          std::make_unique<Pipeline>(loop.io, *stores::redis::Remote::make(std::move(address))));
    }
  }
  ~FanOut() override {
    for (const auto& node : nodes_) node->close();
  }

  void take(int caller, std::function<void()> done) override {
    loop_.post([this, caller, done = std::move(done)] {
      const auto granted = std::make_shared<std::vector<std::size_t>>();
      begin(caller);
      send(
          all_, [&](std::size_t node) { return take_wire(caller, node); },
          [this, caller, granted, done](std::size_t node) {
            granted->push_back(node);
            if (granted->size() != kMajority) return;
            if (!tokens_) return done();
            const auto confirmed = std::make_shared<std::size_t>(0);
            send(
                *granted, [&](std::size_t one) { return confirm_wire(caller, one); },
                [confirmed, done](std::size_t) {
                  if (++*confirmed == kMajority) done();
                });
          });
    });
  }
  void give(int caller, std::function<void()> done) override {
    loop_.post([this, caller, done = std::move(done)] {
      const auto gone = std::make_shared<std::size_t>(0);
      send(
          all_, [&](std::size_t node) { return give_wire(caller, node); },
          [gone, done](std::size_t) {
            if (++*gone == kMajority) done();
          });
    });
  }

 protected:
  virtual void begin(int) {}
  virtual std::string take_wire(int caller, std::size_t node) = 0;
  virtual std::string confirm_wire(int caller, std::size_t node) = 0;
  virtual std::string give_wire(int caller, std::size_t node) = 0;

  std::string load(const std::string& script) {
    for (std::size_t at = 0; at < kNodes; ++at) cluster_.node(at).must({"SCRIPT", "LOAD", script});
    return stores::redis::sha1_of(script);
  }
  support::RedlockCluster& cluster() { return cluster_; }
  bool tokens() const { return tokens_; }

 private:
  void send(const std::vector<std::size_t>& nodes,
            const std::function<std::string(std::size_t)>& wire_of,
            const std::function<void(std::size_t)>& answered) {
    for (const std::size_t node : nodes) {
      stores::redis::Command one;
      one.wire = wire_of(node);
      nodes_[node]->send(std::move(one), BootClock::now() + 5s,
                         [answered, node](const Result<Reply>& reply) {
                           if (!reply || reply->is_error()) {
                             const std::string& why = reply ? reply->text : reply.error().message();
                             std::fprintf(stderr, "bare: %s\n", why.c_str());
                           }
                           answered(node);
                         });
    }
  }

  Loop& loop_;
  support::RedlockCluster& cluster_;
  const bool tokens_;
  const std::vector<std::size_t> all_{0, 1, 2, 3, 4};
  std::vector<std::unique_ptr<Pipeline>> nodes_;
};

class Bare final : public FanOut {
 public:
  using FanOut::FanOut;

 private:
  static std::string key(int caller) { return "bare:" + std::to_string(caller); }
  std::string take_wire(int caller, std::size_t) override {
    return wire({"EVALSHA", take_, "2", key(caller), "bare:floor", "value", "10000"});
  }
  std::string confirm_wire(int caller, std::size_t) override {
    return wire({"EVALSHA", confirm_, "2", key(caller), "bare:floor", "value", "7"});
  }
  std::string give_wire(int caller, std::size_t) override {
    return wire({"EVALSHA", give_, "1", key(caller), "value"});
  }

  inline static const std::string kTake =
      "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then "
      "return redis.call('GET', KEYS[2]) or '0' end return '-'";
  inline static const std::string kConfirm =
      "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[2], ARGV[2]) return 1 "
      "end return 0";
  inline static const std::string kGive =
      "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end "
      "return 0";

  const std::string take_ = load(kTake);
  const std::string confirm_ = load(kConfirm);
  const std::string give_ = load(kGive);
};

// After the store has joined the nodes.
class OwnScripts final : public FanOut {
 public:
  OwnScripts(Loop& loop, support::RedlockCluster& cluster, bool tokens)
      : FanOut(loop, cluster, tokens), ids_(kCallers) {
    for (std::size_t at = 0; at < kNodes; ++at) {
      known_.push_back(cluster.node(at).must({"GETRANGE", "hfr1@node", "0", "80"}).text);
    }
  }

 private:
  void begin(int caller) override {
    const auto random = base::random_128();
    ids_[static_cast<std::size_t>(caller)] =
        stores::redis::id_text(port::AcquisitionId{random.high, random.low});
  }
  const std::string& id(int caller) const { return ids_[static_cast<std::size_t>(caller)]; }
  static std::string key(int caller) { return "hfr1:own:" + std::to_string(caller); }
  std::string take_wire(int caller, std::size_t node) override {
    return wire({"EVALSHA", take_, "1", key(caller), known_[node],
                 id(caller) + " 000000000000000" + (tokens() ? "0" : "1") +
                     " 0000000010000000 abcdef0123456789 1 0 {}"});
  }
  std::string confirm_wire(int caller, std::size_t node) override {
    return wire({"EVALSHA", hold_, "1", key(caller), known_[node], "confirm", id(caller),
                 "0000000000000007 abcdef0123456789 1"});
  }
  std::string give_wire(int caller, std::size_t node) override {
    return wire({"EVALSHA", hold_, "1", key(caller), known_[node], "release", id(caller),
                 "- abcdef0123456789 1"});
  }

  const std::string take_ = load(std::string(stores::redlock::script_texts::kTake));
  const std::string hold_ = load(std::string(stores::redlock::script_texts::kHold));
  std::vector<std::string> known_;
  std::vector<std::string> ids_;
};

class Ours final : public Locks {
 public:
  Ours(Loop& loop, const std::string& url) {
    port::StoreContext context;
    context.loop = &loop;
    context.listener = &loop;
    context.io = &loop.io;
    port::SchemaJob job;
    port::StoreContext once = context;
    once.schema = &job;
    if (auto made = stores::make_redlock_store(*port::StoreUrl::parse(url), once); !made) {
      std::fprintf(stderr, "%s\n", made.error().message().c_str());
    }
    store_ = *stores::make_redlock_store(*port::StoreUrl::parse(url), context);
    for (int caller = 0; caller < kCallers; ++caller) ids_.emplace_back();
  }
  ~Ours() override { store_->close(BootClock::now() + 1s); }

  void take(int caller, std::function<void()> done) override {
    const auto random = base::random_128();
    port::AcquisitionId& id = ids_[static_cast<std::size_t>(caller)];
    id = {random.high, random.low};
    port::AcquireRequest request;
    request.name = "ours:" + std::to_string(caller);
    request.id = id;
    request.may_wait = false;
    request.ttl = request.waiter_ttl = 10s;
    request.deadline = BootClock::now() + 5s;
    store_->acquire(std::move(request), [done](const Result<port::AcquisitionState>& state) {
      if (!state || state->status != port::AcquisitionStatus::kHeld) {
        std::fprintf(stderr, "ours: %s\n", state ? "busy" : state.error().message().c_str());
      }
      done();
    });
  }
  void give(int caller, std::function<void()> done) override {
    store_->release({"ours:" + std::to_string(caller), ids_[static_cast<std::size_t>(caller)],
                     BootClock::now() + 5s},
                    [done](const Result<port::EndStatus>&) { done(); });
  }

 private:
  std::unique_ptr<port::Store> store_;
  std::vector<port::AcquisitionId> ids_;
};

void await(const std::function<void(std::function<void()>)>& begin) {
  std::promise<void> over;
  begin([&over] { over.set_value(); });
  over.get_future().wait();
}

// The median time of a grant, in microseconds.
double grant_us(Locks& locks, int grants) {
  std::vector<double> times;
  for (int i = 0; i < grants; ++i) {
    const auto begin = Clock::now();
    await([&](auto done) { locks.take(0, done); });
    times.push_back(micros_since(begin));
    await([&](auto done) { locks.give(0, done); });
  }
  return median(std::move(times));
}

double pairs_per_second(Locks& locks, int pairs) {
  std::atomic<int> left{pairs};
  std::atomic<int> running{kCallers};
  std::promise<void> over;
  std::function<void(int)> next = [&](int caller) {
    if (left.fetch_sub(1) <= 0) {
      if (running.fetch_sub(1) == 1) over.set_value();
      return;
    }
    locks.take(caller, [&, caller] { locks.give(caller, [&, caller] { next(caller); }); });
  };
  const auto begin = Clock::now();
  for (int caller = 0; caller < kCallers; ++caller) next(caller);
  over.get_future().wait();
  return pairs / seconds_since(begin);
}

struct Rig {
  explicit Rig(bool with_tokens) : tokens(with_tokens) {}
  const bool tokens;
  support::RedlockCluster cluster{kNodes};
  Loop loop;
  Bare bare{loop, cluster, tokens};
  Ours ours{loop, cluster.url(tokens ? "" : "tokens=no")};
  OwnScripts own{loop, cluster, tokens};
};

std::unique_ptr<Rig> rig(benchmark::State& state, bool tokens) {
  if (const auto why_not = support::RedisServer::unavailable()) {
    state.SkipWithError(("SKIPPED: no Redis: " + *why_not).c_str());
    return nullptr;
  }
  return std::make_unique<Rig>(tokens);
}

// The two sides take turns; `figure` measures one.
template <typename Figure>
void compare(benchmark::State& state, const char* unit, bool tokens, int pairs, Figure figure) {
  const auto servers = rig(state, tokens);
  if (!servers) return;
  figure(servers->bare, pairs);
  figure(servers->ours, pairs);
  figure(servers->own, pairs);
  std::vector<double> ours, bare, own, shares, own_shares;
  for (auto _ : state) {
    bare.push_back(figure(servers->bare, pairs));
    ours.push_back(figure(servers->ours, pairs));
    own.push_back(figure(servers->own, pairs));
    shares.push_back(ours.back() / bare.back());
    own_shares.push_back(own.back() / bare.back());
  }
  state.counters[unit] = median(ours);
  state.counters[std::string("bare_") + unit] = median(bare);
  state.counters[std::string("own_") + unit] = median(own);
  state.counters["of_bare"] = median(shares);
  state.counters["own_of_bare"] = median(own_shares);
  support::RedisServer& node = servers->cluster.node(0);
  for (const bool is_ours : {false, true}) {
    Locks& locks = is_ours ? static_cast<Locks&>(servers->ours) : servers->bare;
    node.reset_counts();
    static_cast<void>(figure(locks, pairs));
    const std::string stats = node.info("commandstats", "cmdstat_evalsha");
    const std::string key = ",usec=";
    const double us = std::stod(stats.substr(stats.find(key) + key.size())) / pairs;
    state.counters[is_ours ? "server_us" : "bare_server_us"] = us;
  }
}

void Redlock_OneCaller(benchmark::State& state) { compare(state, "grant_us", true, 300, grant_us); }
BENCHMARK(Redlock_OneCaller)->Iterations(9)->UseRealTime()->Unit(benchmark::kMillisecond);

void Redlock_OneCallerNoTokens(benchmark::State& state) {
  compare(state, "grant_us", false, 300, grant_us);
}
BENCHMARK(Redlock_OneCallerNoTokens)->Iterations(9)->UseRealTime()->Unit(benchmark::kMillisecond);

void Redlock_64Callers(benchmark::State& state) {
  compare(state, "pairs", true, 4000, pairs_per_second);
}
BENCHMARK(Redlock_64Callers)->Iterations(9)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace holdfast::bench
