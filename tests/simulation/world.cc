#include "tests/simulation/world.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "src/base/random.h"
#include "src/session/loop/event_loop.h"
#include "src/session/worker.h"

namespace holdfast::simulation {
namespace {

World* the_world = nullptr;

}  // namespace

World::World(std::uint64_t seed) : dice(seed) { the_world = this; }
World::~World() { the_world = nullptr; }
World& World::get() { return *the_world; }

bool World::step() {
  if (events_.empty()) return false;
  auto first = events_.extract(events_.begin());
  now = first.key().first;
  first.mapped()();
  return true;
}

Process::Process(World& world, std::uint64_t number)
    : world_(world),
      number_(number),
      rate_ppm_(static_cast<std::int64_t>(world.dice.below(9000)) - 4500) {}

// Rounded up: who is woken is not too early.
Nanos Process::to_true(base::BootInstant t) const {
  if (t == base::BootInstant::max()) return Nanos::max();
  const Nanos since = t - base::BootInstant(1h);
  Nanos guess = since - since / (1'000'000 + rate_ppm_) * rate_ppm_;
  while (local(guess) < t) guess += std::max<Nanos>(t - local(guess), 1us);
  return guess;
}

void Process::post(Thread thread, Task task) {
  tasks_[thread].push_back(std::move(task));
  if (tasks_[thread].size() > 1) return;
  come_to(thread, world_.dice.one_in(20) ? world_.upto(2ms) : world_.upto(20us));
}

void Process::come_to(Thread thread, Nanos delay) {
  world_.after(delay, [this, thread] { turn(thread); });
}

void Process::turn(Thread thread) {
  if (world_.closing) return;
  for (std::size_t left = tasks_[thread].size(); left > 0; --left) {
    if (dead_) return;
    if (paused_until_ > world_.now) return come_to(thread, paused_until_ - world_.now);
    Task task = std::move(tasks_[thread].front());
    run(task);
    task = nullptr;
    tasks_[thread].pop_front();  // Last: whoever posts meanwhile knows that a turn is under way.
  }
  if (!tasks_[thread].empty()) come_to(thread, 1us);
}

void Process::run(const Task& task) {
  Process* const before = std::exchange(world_.running, this);
  task();
  world_.running = before;
}

void Process::drain(Thread thread) {
  while (!tasks_[thread].empty()) {
    Task task = std::move(tasks_[thread].front());
    tasks_[thread].pop_front();
    if (task) run(task);
  }
}

void Process::drain_all() {
  const auto some = [](const auto& tasks) { return !tasks.empty(); };
  while (std::any_of(tasks_.begin(), tasks_.end(), some)) {
    for (const Thread thread : {kLoop, kRenewal, kNotifier, kProgram}) drain(thread);
  }
}

bool Process::is_quiet() const {
  const auto empty = [](const auto& tasks) { return tasks.empty(); };
  return asleep_.empty() && std::all_of(tasks_.begin(), tasks_.end(), empty);
}

void Process::pause(Nanos time) {
  paused_until_ = std::max(paused_until_, world_.now + time);
  sound_since_ = paused_until_;
}

void Process::die() {
  if (std::exchange(dead_, true)) return;
  died_at_ = world_.now;
}

void Process::sleep(Nanos time, std::coroutine_handle<> program) {
  const std::uint64_t id = ++sleeps_;
  asleep_.emplace(id, program);
  world_.after(time, [this, id] {
    post(kProgram, [this, id] {
      if (const auto sleeper = asleep_.extract(id)) sleeper.mapped().resume();
    });
  });
}

void Process::wake_all() {
  while (!asleep_.empty()) {
    const auto sleeper = asleep_.extract(asleep_.begin());
    run([&] { sleeper.mapped().resume(); });
  }
}

}  // namespace holdfast::simulation

namespace holdfast::base {

using simulation::World;

BootInstant BootClock::now() noexcept {
  World& world = World::get();
  // Whoever waits for a time to be over, while nothing else happens any more, waits no longer.
  if (world.closing) world.now += std::chrono::seconds(1);
  return world.running != nullptr ? world.running->local(world.now) : BootInstant(world.now);
}

BootInstant host_boot_now() noexcept { return BootClock::now(); }
std::chrono::system_clock::time_point wall_now() noexcept { return {}; }
std::chrono::nanoseconds wall_minus_boot() noexcept { return {}; }

Random128 random_128() {
  auto& dice = World::get().dice;
  const std::uint64_t high = dice.draw();
  return {high, dice.draw() | 1U};
}
Random128 fresh_random_128() { return random_128(); }

std::string to_hex(std::uint64_t high, std::uint64_t low) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint64_t half : {high, low}) {
    for (unsigned shift = 64; shift > 0; shift -= 4) text += kDigits[(half >> (shift - 4)) & 15U];
  }
  return text;
}

}  // namespace holdfast::base

namespace holdfast::session {

using simulation::Process;
using simulation::World;

struct EventLoop::Impl {
  std::function<void()> on_timer;
  Process* process = World::get().running;
  bool stopped = false;
  // The timer's generation: an earlier arming has no effect.
  std::shared_ptr<std::uint64_t> armed = std::make_shared<std::uint64_t>(0);
};

EventLoop::EventLoop(std::function<void()> on_timer)
    : impl_(std::make_unique<Impl>(Impl{std::move(on_timer)})) {}

EventLoop::~EventLoop() { stop(); }

void EventLoop::post(port::Task task) {
  if (!impl_->stopped) impl_->process->post(Process::kLoop, std::move(task));
}

void EventLoop::arm(base::BootInstant at) noexcept {
  const std::uint64_t mine = ++*impl_->armed;
  if (at == base::BootInstant::max()) return;
  World::get().at(impl_->process->to_true(at), [impl = impl_.get(), armed = impl_->armed, mine] {
    if (World::get().closing || *armed != mine) return;
    impl->process->post(Process::kLoop, [impl, armed, mine] {
      if (*armed == mine) impl->on_timer();
    });
  });
}

void EventLoop::stop() {
  if (std::exchange(impl_->stopped, true)) return;
  ++*impl_->armed;
  impl_->process->drain(Process::kLoop);
}

// No call of the world waits in a thread.
void EventLoop::wait(base::WaitWord&, std::uint32_t, std::chrono::nanoseconds) { std::abort(); }
void EventLoop::answer(port::Task tell) { tell(); }
void EventLoop::rouse() {}
void EventLoop::word_was_set() {}
void EventLoop::keep() {}

// Nobody runs it here.
asio::io_context& EventLoop::io() noexcept {
  alignas(std::max_align_t) static char nothing[16];
  return reinterpret_cast<asio::io_context&>(nothing);
}

// The one that renews, and the one that tells the program.
void Worker::post(std::function<void()> task) {
  const base::LocalLock lock(mutex_);
  if (stopping_) return;
  const bool renews = std::string_view(name_) == "holdfast-renew";
  World::get().running->post(renews ? Process::kRenewal : Process::kNotifier, std::move(task));
}

void Worker::stop() {
  {
    const base::LocalLock lock(mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  World::get().running->drain(Process::kRenewal);
  World::get().running->drain(Process::kNotifier);
}

}  // namespace holdfast::session
