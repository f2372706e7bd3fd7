// A world in which time is a number: processes with clocks of their own, which pause and die.
//
// The library is the true one, but for what touches the machine: world.cc defines the clock, the
// random bits, the loop and the worker threads (src/base/clock.h, src/base/random.h,
// src/session/loop/event_loop.h, src/session/worker.h) anew, and the linker takes those. Everything
// runs on one thread, and a seed replays a run.
#pragma once

#include <array>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/machine/testing/dice.h"

namespace holdfast::simulation {

using namespace std::chrono_literals;
using Nanos = std::chrono::nanoseconds;
using Task = std::function<void()>;

class Process;

class World {
 public:
  explicit World(std::uint64_t seed);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  static World& get();

  void at(Nanos when, Task what) {
    events_.emplace(std::pair(std::max(when, now), order_++), std::move(what));
  }
  void after(Nanos delay, Task what) { at(now + delay, std::move(what)); }
  bool step();

  bool percent(std::uint64_t p) { return dice.below(100) < p; }
  Nanos upto(Nanos most) {
    return Nanos(
        static_cast<std::int64_t>(dice.below(static_cast<std::uint64_t>(most.count()) + 1)));
  }

  machine::testing::Dice dice;
  Nanos now{};  // True time, which nobody in the simulation can read.
  // The faults that may happen in this run.
  bool loses = false;   // Requests, replies and pushes are lost, repeated and late.
  bool pauses = false;  // Processes stand still.
  bool deaths = false;
  bool closing = false;  // All is over: every call is to come to an end.

  Process* running = nullptr;

 private:
  std::map<std::pair<Nanos, std::uint64_t>, Task> events_;
  std::uint64_t order_ = 0;
};

// One program that uses the library: what its threads do, in turns.
class Process {
 public:
  enum Thread : std::size_t { kLoop, kRenewal, kNotifier, kProgram };

  Process(World& world, std::uint64_t number);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  std::string name() const { return "p" + std::to_string(number_); }

  // Tasks of one thread run one at a time, in their order; a process that stands still runs them
  // later, a dead one never.
  void post(Thread thread, Task task);
  // At once.
  void run(const Task& task);
  // Runs the tasks that were posted to it, and the tasks that these post.
  void drain(Thread thread);
  void drain_all();

  void pause(Nanos time);
  void die();
  bool dead() const { return dead_; }
  Nanos died_at() const { return died_at_; }
  bool well_since(Nanos then) const { return !dead_ && sound_since_ <= then; }

  void sleep(Nanos time, std::coroutine_handle<> program);
  void wake_all();
  bool is_quiet() const;

  // Every two clocks differ by less than the one percent that is allowed for.
  base::BootInstant local(Nanos t) const {
    return base::BootInstant(1h) + t + t / 1'000'000 * rate_ppm_;
  }
  Nanos to_true(base::BootInstant t) const;

 private:
  void come_to(Thread thread, Nanos delay);
  void turn(Thread thread);

  World& world_;
  const std::uint64_t number_;
  std::int64_t rate_ppm_ = 0;
  Nanos paused_until_{};
  Nanos sound_since_{};
  bool dead_ = false;
  Nanos died_at_{};
  std::array<std::deque<Task>, 4> tasks_;
  std::map<std::uint64_t, std::coroutine_handle<>> asleep_;
  std::uint64_t sleeps_ = 0;
};

}  // namespace holdfast::simulation
