// Lock pairs on Redis against the raw limit of the same server, in the same run.
//
// PairsInFlight: one client, one thread with an io_context, 256 acquisitions in flight on as many
//   names; pairs per second. Beside it what redis-benchmark reaches with the shortest safe pair of
//   scripts (redis_rig.h): 1/(1/a + 1/b) of its two rates, once with its 50 connections and 16
//   requests in flight on each (`-P 16`), once with 256 plain connections. Its keys differ from
//   request to request, and the release finds its key nineteen times of twenty. The CPU
//   time of both sides is told, too: it depends less on what else runs. The contestants of
//   a round take turns; each figure is the median of the rounds, a ratio the median of the rounds'
//   ratios. `spread`: highest minus lowest of the rounds, by the median.
// ScriptsAlone: redis-benchmark with Holdfast's own two scripts in place of the shortest: what the
//   server's part of a pair allows at most, whatever the client costs.
// JoinedScriptsAlone: the same, with 16 locks per request in place of `-P 16`: what the store sends
//   while many ask at once.
// WithoutAScript: SET NX PX, GET and DEL as plain commands, `-P 16`: as much as a fast path
//   without a script could bring. There is none, because only a script can write the record and
//   mint its token in one step, and only a script can compare and delete.
// OneCaller: blocking pairs (try_acquire, release) from one thread that is bound to one core, the
//   server to another; beside it, on a plain blocking socket of the same thread, two round trips of
//   the shortest scripts, and two of PING. p50 of a pair, block by block in turn.
#include <sys/resource.h>

#include <cstdlib>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/chains.h"
#include "bench/redis_rig.h"
#include "holdfast/client.h"
#include "src/stores/redis/protocol/scripts.h"

namespace holdfast::bench {
namespace {

constexpr int kInFlight = 256;
constexpr int kRounds = 7;
constexpr int kPairsPerRound = 60'000;
// A tenth of the keys that are there are released, and a fifth as many acquired beside them: hardly
// a key comes twice, and the table does not grow while it is measured.
constexpr const char* kAcquires = " -n 20000 -r 100000000";
constexpr const char* kReleases = " -n 10000 -r 100000";
constexpr const char* kKeys = "100000";
constexpr std::string_view kId = "0123456789abcdef0123456789abcdef";
constexpr std::string_view kOwner =
    R"({"owner":"host/12345/0123456789ab","host":"host","pid":12345,"program":"redis_bench",)"
    R"("since_unix_ms":1700000000000})";

double pair_rate(double one, double other) {
  return one > 0 && other > 0 ? 1 / (1 / one + 1 / other) : 0;
}

// Calls of scripts so far.
double script_calls(const RedisRig& rig) {
  const std::string stats = RawConnection(rig.port()).ask({"INFO", "commandstats"});
  const std::string head = "cmdstat_evalsha:calls=";
  const std::size_t at = stats.find(head);
  return at == std::string::npos ? 0 : std::atof(stats.c_str() + at + head.size());
}

// The references need keys to find.
class Reference {
 public:
  explicit Reference(const RedisRig& rig)
      : connection_(rig.port()),
        acquire_(rig.load(kShortestAcquire)),
        release_(rig.load(kShortestRelease)) {}

  // Nothing but what releases are to find: `value` under `prefix`<number>`suffix`.
  void fill(std::string_view prefix, std::string_view suffix, std::string_view value) {
    connection_.ask({"FLUSHALL", "SYNC"});
    constexpr char kFill[] =
        "for i = 0, ARGV[4] - 1 do redis.call('SET', ARGV[1] .. "
        "string.format('%012d', i) .. ARGV[2], ARGV[3], 'PX', 600000) end";
    connection_.ask({"EVAL", kFill, "0", prefix, suffix, value, kKeys});
  }

  double shortest_pair(const std::string& shape) {
    fill("held:", "", kId);
    const double a = redis_benchmark(
        shape + kAcquires,
        {"EVALSHA", acquire_, "2", "free:__rand_int__", "counter", std::string(kId), "30000"});
    const double b = redis_benchmark(
        shape + kReleases, {"EVALSHA", release_, "1", "held:__rand_int__", std::string(kId)});
    return pair_rate(a, b);
  }

  // `joined`: so many pairs per request.
  double holdfast_pair(const RedisRig& rig, const std::string& shape, int joined) {
    namespace redis = stores::redis;
    const std::string acquire = rig.load(redis::script(redis::ScriptName::kAcquire).text);
    const std::string release = rig.load(redis::script(redis::ScriptName::kEnd).text);
    const std::string id(kId), client = id.substr(0, 16), number = "0000000000000001";
    const std::string owner(kOwner);
    fill("hf1:{held", "}",
         "1 held 1700000000000000 " + client + " " + number + " " + id +
             " 1700000000000000 0 30000000 " + owner);
    const auto request = [&](const std::string& hash, const char* key,
                             const std::vector<std::string>& own) {
      std::vector<std::string> words{"EVALSHA", hash, std::to_string(joined)};
      words.insert(words.end(), static_cast<std::size_t>(joined), key);
      words.push_back(client);
      for (int i = 0; i < joined; ++i) words.insert(words.end(), own.begin(), own.end());
      return words;
    };
    const auto count = [&](int all) { return " -n " + std::to_string(all / joined); };
    const double a =
        redis_benchmark(shape + count(20'000) + " -r 100000000",
                        request(acquire, "hf1:{free__rand_int__}",
                                {id, number, "30000000", owner, "Pe 1 1 1 5000000 0 -"}));
    const double b =
        redis_benchmark(shape + count(10'000) + " -r 100000",
                        request(release, "hf1:{held__rand_int__}", {id, number, "release"}));
    return pair_rate(a, b) * joined;
  }

  double plain_commands(const std::string& shape) {
    fill("held:", "", kId);
    const double a = redis_benchmark(
        shape + kAcquires, {"SET", "free:__rand_int__", std::string(kId), "NX", "PX", "30000"});
    const double b = redis_benchmark(shape + kReleases, {"GET", "held:__rand_int__"});
    const double c = redis_benchmark(shape + kReleases, {"DEL", "held:__rand_int__"});
    return pair_rate(a, pair_rate(b, c));
  }

  const std::string& acquire_script() const { return acquire_; }
  const std::string& release_script() const { return release_; }

 private:
  RawConnection connection_;
  const std::string acquire_;
  const std::string release_;
};

constexpr const char* kPipelined = "-c 50 -P 16";
constexpr const char* kPlainFifty = "-c 50 -P 1";
constexpr const char* kPlain = "-c 256 -P 1";

bool no_server(benchmark::State& state) {
  if (RedisRig::instance() == nullptr) {
    state.SkipWithError("no redis-server");
    return true;
  }
  state.SetLabel(RedisRig::instance()->version());
  return false;
}

void PairsInFlight(benchmark::State& state) {
  if (no_server(state)) return;
  RedisRig& rig = *RedisRig::instance();
  auto client = Client::connect(rig.url());
  if (!client) return state.SkipWithError(client.error().message().c_str());
  Chains chains(*client, kInFlight);
  Reference reference(rig);
  std::vector<double> ours, pipelined, plain, to_pipelined, to_plain, client_cpu, server_cpu,
      switches, joined;
  chains.run(kPairsPerRound / 4);
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round) {
      pipelined.push_back(reference.shortest_pair(kPipelined));
      rusage before{};
      ::getrusage(RUSAGE_SELF, &before);
      const double client_before = cpu_of_this_process();
      const double calls_before = script_calls(rig);
      const double server_before = rig.cpu_seconds();
      ours.push_back(chains.run(kPairsPerRound));
      rusage after{};
      ::getrusage(RUSAGE_SELF, &after);
      switches.push_back(static_cast<double>(after.ru_nvcsw - before.ru_nvcsw) / kPairsPerRound);
      client_cpu.push_back((cpu_of_this_process() - client_before) / kPairsPerRound * 1e6);
      server_cpu.push_back((rig.cpu_seconds() - server_before) / kPairsPerRound * 1e6);
      joined.push_back(2.0 * kPairsPerRound / (script_calls(rig) - calls_before));
      plain.push_back(reference.shortest_pair(kPlain));
      if (ours.back() == 0 || pipelined.back() == 0 || plain.back() == 0) {
        return state.SkipWithError("a pair, or redis-benchmark, failed");
      }
      to_pipelined.push_back(ours.back() / pipelined.back());
      to_plain.push_back(ours.back() / plain.back());
    }
    state.SetIterationTime(kPairsPerRound / median(ours));
  }
  state.counters["pairs_per_s"] = median(ours);
  state.counters["spread"] = spread(ours);
  state.counters["pipelined_per_s"] = median(pipelined);
  state.counters["plain_per_s"] = median(plain);
  state.counters["of_pipelined"] = median(to_pipelined);  // To be 0.9 at least.
  state.counters["of_256_plain"] = median(to_plain);      // To be 1.5 at least.
  state.counters["spread_of_pipelined"] = spread(to_pipelined);
  state.counters["client_us"] = median(client_cpu);
  state.counters["client_switches"] = median(switches);  // For each pair.
  state.counters["server_us"] = median(server_cpu);
  state.counters["locks_per_call"] = median(joined);  // For each script.
}
BENCHMARK(PairsInFlight)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

void compare_with_shortest(benchmark::State& state, double (*pair)(Reference&, const RedisRig&)) {
  if (no_server(state)) return;
  RedisRig& rig = *RedisRig::instance();
  Reference reference(rig);
  std::vector<double> rates, ratios;
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round) {
      const double shortest = reference.shortest_pair(kPipelined);
      rates.push_back(pair(reference, rig));
      if (shortest == 0 || rates.back() == 0) return state.SkipWithError("redis-benchmark failed");
      ratios.push_back(rates.back() / shortest);
    }
    state.SetIterationTime(1 / median(rates));
  }
  state.counters["pairs_per_s"] = median(rates);
  state.counters["of_pipelined"] = median(ratios);
  state.counters["spread_of_pipelined"] = spread(ratios);
}

void ScriptsAlone(benchmark::State& state) {
  compare_with_shortest(state, [](Reference& reference, const RedisRig& rig) {
    return reference.holdfast_pair(rig, kPipelined, 1);
  });
}
BENCHMARK(ScriptsAlone)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

void JoinedScriptsAlone(benchmark::State& state) {
  compare_with_shortest(state, [](Reference& reference, const RedisRig& rig) {
    return reference.holdfast_pair(rig, kPlainFifty, 16);
  });
}
BENCHMARK(JoinedScriptsAlone)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

void WithoutAScript(benchmark::State& state) {
  compare_with_shortest(state, [](Reference& reference, const RedisRig&) {
    return reference.plain_commands(kPipelined);
  });
}
BENCHMARK(WithoutAScript)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

// --- One caller.

constexpr int kBlocks = 40;
constexpr int kPairsPerBlock = 250;

template <typename Pair>
double p50_us(Pair pair, bool& ok) {
  std::vector<double> times;
  times.reserve(kPairsPerBlock);
  for (int i = 0; i < kPairsPerBlock && ok; ++i) {
    const auto begin = Clock::now();
    ok = pair();
    times.push_back(seconds_since(begin) * 1e6);
  }
  return median(std::move(times));
}

void OneCaller(benchmark::State& state) {
  if (no_server(state)) return;
  RedisRig& rig = *RedisRig::instance();
  auto client = Client::connect(rig.url());
  if (!client) return state.SkipWithError(client.error().message().c_str());
  Mutex mutex = client->mutex("one");
  const Reference reference(rig);
  RawConnection raw(rig.port());
  const std::string acquire =
      request({"EVALSHA", reference.acquire_script(), "2", "raw", "counter", kId, "30000"});
  const std::string release = request({"EVALSHA", reference.release_script(), "1", "raw", kId});
  const std::string ping = request({"PING"});
  const auto blocking = [&] {
    auto lease = mutex.try_acquire();
    return lease && *lease && (*lease)->release();
  };
  const auto plain = [&] {
    const std::string_view taken = raw.round_trip(acquire);
    return taken.starts_with(':') && taken != ":0\r\n" && raw.round_trip(release) == ":1\r\n";
  };
  const auto pings = [&] {
    return raw.round_trip(ping) == "+PONG\r\n" && !raw.round_trip(ping).empty();
  };
  bool ok = blocking();
  pin(0, 0);
  pin(rig.pid(), 1);
  std::vector<double> ours, scripts, bare, ratios;
  for (auto _ : state) {
    for (int block = 0; block < kBlocks && ok; ++block) {
      scripts.push_back(p50_us(plain, ok));
      ours.push_back(p50_us(blocking, ok));
      bare.push_back(p50_us(pings, ok));
      ratios.push_back(ours.back() / scripts.back());
    }
    state.SetIterationTime(median(ours) / 1e6);
  }
  pin(0, -1);
  pin(rig.pid(), -1);
  if (!ok) return state.SkipWithError("a pair failed");
  state.counters["pair_us_p50"] = median(ours);
  state.counters["spread"] = spread(ours);
  state.counters["two_round_trips_us_p50"] = median(scripts);
  state.counters["two_pings_us_p50"] = median(bare);
  state.counters["of_two_round_trips"] = median(ratios);  // To be 1.1 at most.
}
BENCHMARK(OneCaller)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace holdfast::bench
