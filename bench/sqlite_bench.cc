// The SQLite store against the raw limit of SQLite: uncontended pairs beside a bare loop of two
// write transactions with the same durability, and the handoff between two processes.
//
// Pairs and the bare loop take turns in short blocks within one run; each figure is the median of
// its blocks, so that what disturbs the machine disturbs both.
#include <signal.h>
#include <sqlite3.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/figures.h"
#include "holdfast/client.h"
#include "src/base/clock.h"
#include "src/port/store_url.h"
#include "src/session/loop/event_loop.h"
#include "src/stores/sqlite/sqlite_store.h"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using bench::median;

constexpr int kBlocks = 41;
constexpr int kPairsPerBlock = 1000;

class Folder {
 public:
  Folder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "holdfast-bench-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// The least that any lock on this file could do: two write transactions per pair.
class BareLoop {
 public:
  explicit BareLoop(const std::string& path) {
    ok_ = sqlite3_open(path.c_str(), &db_) == SQLITE_OK &&
          // As the store has them, so that only the work on top is compared.
          run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
              "PRAGMA wal_autocheckpoint = 4000;"
              "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO t VALUES(1, 0)") &&
          prepare("BEGIN IMMEDIATE", begin_) && prepare("COMMIT", commit_) &&
          prepare("UPDATE t SET n = n + 1 WHERE id = 1", update_);
  }
  ~BareLoop() {
    for (sqlite3_stmt* statement : {begin_, commit_, update_}) sqlite3_finalize(statement);
    sqlite3_close(db_);
  }
  BareLoop(const BareLoop&) = delete;
  BareLoop& operator=(const BareLoop&) = delete;

  bool ok() const { return ok_; }
  bool pair() { return transaction() && transaction(); }

 private:
  bool run(const char* text) { return sqlite3_exec(db_, text, nullptr, nullptr, nullptr) == 0; }
  bool prepare(const char* text, sqlite3_stmt*& out) {
    return sqlite3_prepare_v2(db_, text, -1, &out, nullptr) == SQLITE_OK;
  }
  static bool step(sqlite3_stmt* statement) {
    const bool done = sqlite3_step(statement) == SQLITE_DONE;
    sqlite3_reset(statement);
    return done;
  }
  bool transaction() { return step(begin_) && step(update_) && step(commit_); }

  bool ok_ = false;
  sqlite3* db_ = nullptr;
  sqlite3_stmt* begin_ = nullptr;
  sqlite3_stmt* commit_ = nullptr;
  sqlite3_stmt* update_ = nullptr;
};

struct Cost {
  double wall = 0;
  double cpu = 0;  // This thread's: hardly disturbed by other programs on the machine.
};

double thread_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

Cost block_of(const std::function<bool()>& pair, bool& ok) {
  const auto start = std::chrono::steady_clock::now();
  const double cpu = thread_cpu_seconds();
  for (int i = 0; i < kPairsPerBlock && ok; ++i) ok = pair();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          thread_cpu_seconds() - cpu};
}

void compare(benchmark::State& state, const std::function<bool()>& pair, BareLoop& bare) {
  bool ok = bare.ok();
  for (auto _ : state) {
    std::vector<double> ours;
    std::vector<double> theirs;
    std::vector<double> ratios;
    std::vector<double> cpu_ratios;
    double total = 0;
    for (int block = 0; block < kBlocks && ok; ++block) {
      const Cost bare_cost = block_of([&] { return bare.pair(); }, ok);
      const Cost our_cost = block_of(pair, ok);
      theirs.push_back(bare_cost.wall);
      ours.push_back(our_cost.wall);
      ratios.push_back(bare_cost.wall / our_cost.wall);
      cpu_ratios.push_back(bare_cost.cpu / our_cost.cpu);
      total += our_cost.wall;
    }
    if (!ok) return state.SkipWithError("a pair failed");
    state.SetIterationTime(total);
    state.counters["pairs_per_s"] = kPairsPerBlock / median(ours);
    state.counters["bare_pairs_per_s"] = kPairsPerBlock / median(theirs);
    state.counters["ratio"] = median(ratios);
    state.counters["cpu_ratio"] = median(cpu_ratios);
  }
}

class NobodyListens : public port::Listener {
  void on_push(const port::Push&) override {}
};

// One lock of a store, asked for on the calling thread.
class Port {
 public:
  explicit Port(const std::string& path) {
    port::StoreUrl url;
    url.scheme = "sqlite";
    url.path = path;
    auto store = stores::make_sqlite_store(url, {&loop_, &listener_, "bench"});
    if (store) store_ = *std::move(store);
    request_.name = "bench";
    request_.ttl = 600s;
    request_.waiter_ttl = 600s;
    machine::OwnerInfo owner;
    owner.owner = "bench-0123456789abcdef0123456789abcdef";
    owner.host = "localhost";
    owner.program = "sqlite_bench";
    request_.owner = std::make_shared<machine::OwnerInfo>(owner);
  }
  ~Port() {
    if (store_) store_->close(base::BootClock::now() + 1s);
  }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  bool ok() const { return store_ != nullptr; }
  bool acquire(std::uint64_t number, port::AcquisitionStatus expected) {
    request_.id = {1, number};
    request_.deadline = base::BootClock::now() + 5s;
    for (int attempt = 0; attempt < 100; ++attempt) {  // The store may be busy for a moment.
      const auto state = store_->acquire_inline(request_);
      if (state) return *state && (*state)->status == expected;
      ::usleep(100);
    }
    return false;
  }
  bool release(std::uint64_t number) {
    for (int attempt = 0; attempt < 100; ++attempt) {
      const auto ended =
          store_->release_inline({"bench", {1, number}, base::BootClock::now() + 5s});
      if (ended) return *ended && **ended == port::EndStatus::kReleased;
      ::usleep(100);
    }
    return false;
  }

 private:
  session::EventLoop loop_{[] {}};
  NobodyListens listener_;
  port::AcquireRequest request_;
  std::unique_ptr<port::Store> store_;
};

void PairsThroughThePort(benchmark::State& state) {
  const Folder folder;
  Port lock(folder / "locks.db");
  if (!lock.ok()) return state.SkipWithError("the store does not open");
  std::uint64_t number = 0;
  BareLoop bare(folder / "bare.db");
  compare(
      state,
      [&] {
        ++number;
        return lock.acquire(number, port::AcquisitionStatus::kHeld) && lock.release(number);
      },
      bare);
}
BENCHMARK(PairsThroughThePort)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

void PairsThroughTheApi(benchmark::State& state) {
  const Folder folder;
  auto client = Client::connect("sqlite://" + (folder / "locks.db"));
  if (!client) return state.SkipWithError(client.error().message().c_str());
  Mutex mutex = client->mutex("bench");
  BareLoop bare(folder / "bare.db");
  compare(
      state,
      [&] {
        auto lease = mutex.try_acquire();
        return lease && *lease && (*lease)->release().has_value();
      },
      bare);
}
BENCHMARK(PairsThroughTheApi)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

// --- One lock that so many wait for: what it costs to hand it on, and to join the queue.

void HandoffInAQueue(benchmark::State& state) {
  constexpr int kTurns = 100;
  const Folder folder;
  Port lock(folder / "locks.db");
  bool ok = lock.ok() && lock.acquire(1, port::AcquisitionStatus::kHeld);
  std::uint64_t last = 1;
  const auto queue_up = [&] { ok = ok && lock.acquire(++last, port::AcquisitionStatus::kWaiting); };
  for (auto _ : state) {
    for (std::int64_t i = 0; i < state.range(0); ++i) queue_up();
    std::vector<double> handoffs;
    std::vector<double> joins;
    for (std::uint64_t holder = 1; holder <= kTurns && ok; ++holder) {
      const auto start = std::chrono::steady_clock::now();
      ok = lock.release(holder);
      const auto handed = std::chrono::steady_clock::now();
      queue_up();
      const auto joined = std::chrono::steady_clock::now();
      handoffs.push_back(std::chrono::duration<double>(handed - start).count());
      joins.push_back(std::chrono::duration<double>(joined - handed).count());
    }
    if (!ok) return state.SkipWithError("a request failed");
    state.SetIterationTime(median(handoffs));
    state.counters["handoff_us"] = median(handoffs) * 1e6;
    state.counters["join_us"] = median(joins) * 1e6;
  }
}
BENCHMARK(HandoffInAQueue)
    ->Arg(1)
    ->Arg(10)
    ->Arg(100)
    ->Arg(1000)
    ->Arg(5000)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

// --- Handoff. Two processes take the lock in turn; each grant's instant minus the instant at
// which the other began its release is one sample.

constexpr int kHandoffs = 500;

struct Stamp {
  std::int64_t acquired = 0;
  std::int64_t releasing = 0;
};

std::int64_t now_ns() { return base::BootClock::now().time_since_epoch().count(); }

// Writes a Stamp per turn to `out`. Holds for a moment, so that the other surely waits.
void take_turns(const std::string& url, int out) {
  auto client = Client::connect(url);
  if (!client) std::_Exit(1);
  Mutex mutex = client->mutex("handed");
  for (int turn = 0; turn < kHandoffs; ++turn) {
    auto lease = mutex.acquire({.wait = 30s});
    if (!lease) std::_Exit(2);
    Stamp stamp;
    stamp.acquired = now_ns();
    ::usleep(1500);
    stamp.releasing = now_ns();
    if (!lease->release()) std::_Exit(3);
    if (::write(out, &stamp, sizeof stamp) != sizeof stamp) std::_Exit(4);
  }
  std::_Exit(0);
}

void HandoffBetweenProcesses(benchmark::State& state) {
  const Folder folder;
  const std::string url = "sqlite://" + (folder / "locks.db");
  for (auto _ : state) {
    int ends[2];
    if (::pipe(ends) != 0) return state.SkipWithError("no pipe");
    std::vector<pid_t> children;
    for (int i = 0; i < 2; ++i) {
      const pid_t child = ::fork();  // Before any thread: main() saw to that.
      if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        take_turns(url, ends[1]);
      }
      children.push_back(child);
    }
    ::close(ends[1]);
    std::vector<Stamp> stamps;
    Stamp stamp;
    while (::read(ends[0], &stamp, sizeof stamp) == sizeof stamp) stamps.push_back(stamp);
    ::close(ends[0]);
    bool ok = stamps.size() == 2 * kHandoffs;
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      ok = ok && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    if (!ok) return state.SkipWithError("a process failed");
    std::sort(stamps.begin(), stamps.end(),
              [](const Stamp& a, const Stamp& b) { return a.acquired < b.acquired; });
    std::vector<double> gaps;
    for (std::size_t i = 1; i < stamps.size(); ++i) {
      gaps.push_back(static_cast<double>(stamps[i].acquired - stamps[i - 1].releasing) / 1e3);
    }
    std::sort(gaps.begin(), gaps.end());
    state.SetIterationTime(median(gaps) / 1e6);
    state.counters["handoff_us_p50"] = gaps[gaps.size() / 2];
    state.counters["handoff_us_p99"] = gaps[gaps.size() * 99 / 100];
  }
}
BENCHMARK(HandoffBetweenProcesses)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace holdfast
