// Generators of snowflake ids as people write them, each with a mistake, and Holdfast's in the same
// scene.
//
// Objects of one process stand for the hosts, and the scene sets their clock. So a mistake gives
// the same ids in each play.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/ids/host_workers.h"
#include "holdfast/ids/layout.h"
#include "holdfast/ids/leased_workers.h"
#include "holdfast/ids/snowflake.h"

#include "lab/exhibits/scripts.h"
#include "lab/exhibits/sqlite.h"

namespace holdfast::lab::scripts {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

// The hosts' clock, which only the scene moves. Holdfast's threads read it, too.
class SceneClock final : public ids::IdClock {
 public:
  Reading read() override { return {nanoseconds(wall_.load()), nanoseconds(boot_.load())}; }
  std::int64_t tick() override { return tick_; }
  void sleep(nanoseconds time) override { pass(time); }

  void pass(nanoseconds time) {
    boot_ += time.count();
    set_by(time);
  }
  // Changes the wall clock only.
  void set_by(nanoseconds time) {
    wall_ += time.count();
    ++tick_;
  }
  // Since the scene began.
  std::int64_t passed_ns() const { return boot_; }

 private:
  static constexpr milliseconds kStart{1'770'000'000'000};

  std::atomic<std::int64_t> wall_ = nanoseconds(kStart).count();
  std::atomic<std::int64_t> boot_ = 0;
  std::atomic<std::int64_t> tick_ = 1;
};

template <typename T>
T or_throw(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message());
  return *std::move(result);
}

void or_throw(const Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().message());
}

ids::Layout layout() { return or_throw(ids::Layout::parse("time:41 worker:10 sequence:12")); }

// [region: plain-snowflake]
// 41 bits of time, 10 of the worker's number, 12 of sequence.
struct PlainSnowflake {
  std::uint64_t number = 0;
  std::uint64_t last = 0;
  std::uint64_t sequence = 0;

  std::uint64_t worker() const { return number; }
  std::uint64_t next(std::uint64_t now) {
    sequence = now == last ? sequence + 1 : 0;
    last = now;
    return now << 22 | number << 12 | sequence;
  }
};
// [end]

// [region: worker-from-address]
std::uint64_t worker_of(std::uint32_t address) { return address & 1'023; }
// [end]

// [region: worker-from-rand]
std::uint64_t drawn_by(unsigned process) {
  std::srand(process);
  return static_cast<std::uint64_t>(std::rand()) % 1'024;
}
// [end]

// [region: restart-after-set-back]
PlainSnowflake started(std::uint64_t worker, std::uint64_t saved, std::uint64_t now) {
  if (now + 5 < saved) throw std::runtime_error("the clock went back");
  return {.number = worker};  // 5 ms are tolerated: the time server does that.
}
// [end]

// [region: worker-out-of-range]
std::uint64_t worker_of_start(Sqlite& database) {
  database.change("INSERT INTO starts DEFAULT VALUES");
  return std::stoull(*database.ask("SELECT max(id) FROM starts"));
}
// [end]

// One play: its clock, and the ids that its hosts were given.
class Scene {
 public:
  SceneClock clock;
  GivenIds given;

  std::uint64_t now() { return static_cast<std::uint64_t>(layout_.unit_of(clock.read().wall)); }
  void tell(const std::string& who, const std::string& what) {
    given.tell(clock.passed_ns(), who, what);
  }
  void starts(const std::string& who, std::uint64_t worker) {
    tell(who, "starts with worker " + std::to_string(worker));
  }
  void gives(const std::string& who, PlainSnowflake& host) {
    given.add(clock.passed_ns(), who, host.next(now()));
  }
  void gives(const std::string& who, ids::Snowflake& host) {
    given.add(clock.passed_ns(), who, or_throw(host.next()).number());
  }

 private:
  const ids::Layout layout_ = layout();
};

// A generator gives one id in each of them.
constexpr int kWorkingMs = 10;

template <typename Host>
void works(Scene& scene, const std::string& who, Host& host) {
  for (int i = 0; i < kWorkingMs; ++i) {
    scene.clock.pass(1ms);
    scene.gives(who, host);
  }
}

template <typename Host>
void both_work(Scene& scene, Host& alice, Host& bob) {
  scene.starts("alice", alice.worker());
  scene.starts("bob", bob.worker());
  for (int i = 0; i < kWorkingMs; ++i) {
    scene.clock.pass(1ms);
    scene.gives("alice", alice);
    scene.gives("bob", bob);
  }
}

constexpr unsigned kProcesses = 128;
constexpr unsigned kFirstProcess = 1'000;

// `start` makes the generator of a process, by its number.
template <typename Start>
void each_gives_one(Scene& scene, const Start& start) {
  std::vector<decltype(start(0U))> running;
  for (unsigned i = 0; i < kProcesses; ++i) running.push_back(start(kFirstProcess + i));
  scene.tell("all processes", "have worker numbers");
  scene.clock.pass(1ms);
  for (unsigned i = 0; i < kProcesses; ++i) {
    scene.gives("process " + std::to_string(kFirstProcess + i), *running[i]);
  }
}

ids::HostWorkers host_file(const Play& play, std::uint64_t last) {
  const std::string path = play.file("orders.ids");
  or_throw(ids::HostWorkers::create(path, {.layout = layout(), .first = 0, .last = last}));
  return or_throw(ids::HostWorkers::open(path));
}

}  // namespace

GivenIds worker_from_address(Play& play) {
  const auto address = [](std::uint32_t network) {
    return 10U << 24 | network << 16 | 3U << 8 | 7U;
  };
  Scene scene;
  if (play.beside()) {
    // Leases go by the machine's clock, and so do these ids.
    const std::string url = play.house().redis().url();
    or_throw(ids::LeasedWorkers::create(url, "orders", {.layout = layout()}));
    const auto alice = or_throw(or_throw(ids::LeasedWorkers::open(url, "orders")).take());
    const auto bob = or_throw(or_throw(ids::LeasedWorkers::open(url, "orders")).take());
    both_work(scene, *alice, *bob);
  } else {
    PlainSnowflake alice{worker_of(address(1))};
    PlainSnowflake bob{worker_of(address(2))};
    both_work(scene, alice, bob);
  }
  return scene.given;
}

GivenIds worker_from_rand(Play& play) {
  Scene scene;
  if (play.beside()) {
    const ids::HostWorkers workers = host_file(play, layout().workers() - 1);
    each_gives_one(scene, [&](unsigned) { return or_throw(workers.take(&scene.clock)); });
  } else {
    each_gives_one(scene, [](unsigned process) {
      return std::make_unique<PlainSnowflake>(PlainSnowflake{drawn_by(process)});
    });
  }
  return scene.given;
}

GivenIds restart_after_set_back(Play& play) {
  Scene scene;
  const auto set_back = [&] {
    scene.clock.set_by(-5ms);
    scene.tell("clock", "is set back by 5 ms");
    scene.tell("orders", "starts again");
  };
  scene.tell("orders", "starts");
  if (play.beside()) {
    const ids::HostWorkers workers = host_file(play, /*last=*/0);
    works(scene, "orders", *or_throw(workers.take(&scene.clock)));
    set_back();
    works(scene, "orders", *or_throw(workers.take(&scene.clock)));
  } else {
    PlainSnowflake orders;
    works(scene, "orders", orders);
    set_back();
    orders = started(orders.worker(), orders.last, scene.now());
    works(scene, "orders", orders);
  }
  return scene.given;
}

GivenIds worker_out_of_range(Play& play) {
  constexpr std::size_t kAlices = 7;
  const std::size_t bobs = kAlices + layout().workers();
  Sqlite database(play.file("starts.db"));
  database.change("CREATE TABLE starts (id INTEGER PRIMARY KEY)");
  database.change("BEGIN");
  std::vector<std::uint64_t> numbers;
  while (numbers.size() < bobs) numbers.push_back(worker_of_start(database));
  database.change("COMMIT");
  Scene scene;
  if (!play.beside()) {
    PlainSnowflake alice{numbers[kAlices - 1]};
    PlainSnowflake bob{numbers.back()};
    both_work(scene, alice, bob);
    return scene.given;
  }
  const auto made = [&](std::uint64_t worker) {
    return ids::Snowflake::make({.layout = layout(), .worker = worker, .clock = &scene.clock});
  };
  const auto alice = or_throw(made(numbers[kAlices - 1]));
  const auto bob = made(numbers.back());
  if (bob) {
    both_work(scene, *alice, **bob);
    return scene.given;
  }
  if (bob.error().code() != Errc::kInvalidArgument) throw std::runtime_error(bob.error().message());
  scene.starts("alice", alice->worker());
  scene.tell("bob", "is refused: " + bob.error().message());
  works(scene, "alice", *alice);
  return scene.given;
}

}  // namespace holdfast::lab::scripts
