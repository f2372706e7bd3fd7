#include "lab/workload/workload.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "src/machine/testing/dice.h"

namespace holdfast::lab {
namespace {

using Dice = machine::testing::Dice;

constexpr milliseconds kLook{10};  // Between two checks of a held lock.

class Worker {
 public:
  Worker(Actor& actor, const Shift& shift)
      : actor_(actor), shift_(shift), spec_(shift.spec), dice_(shift.seed) {}

  void work() {
    nap(about(spec_.think));
    while (!over()) {
      if (spec_.kind == "nested" || spec_.kind == "multi") {
        several();
      } else if (spec_.kind == "election") {
        candidate();
      } else {
        single();
      }
      // Pauses after a refusal, so that the store is not asked in a tight loop.
      const bool refused = actor_.last() == Outcome::kUnavailable;
      nap(about(refused ? std::max<milliseconds>(spec_.think, 20ms) : spec_.think));
      while (!over() && shift_.pace.is_ahead(actor_.recorded(), now_ns())) nap(2ms);
    }
  }

 private:
  bool over() const { return now_ns() >= shift_.until_ns; }

  milliseconds about(milliseconds usual) {
    const auto span = static_cast<std::uint64_t>(std::max<std::int64_t>(usual.count(), 1));
    return milliseconds(static_cast<std::int64_t>(span / 2 + dice_.below(span + 1)));
  }
  void nap(milliseconds span) const {
    const std::int64_t left = shift_.until_ns - now_ns();
    const std::chrono::nanoseconds most(std::max<std::int64_t>(left, 0));
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(span, most));
  }
  bool percent(std::int64_t chance) {
    return dice_.below(100) < static_cast<std::uint64_t>(chance);
  }

  std::uint32_t some_lock() {
    return shift_.first_lock +
           static_cast<std::uint32_t>(dice_.below(static_cast<std::uint64_t>(spec_.locks)));
  }
  Mode some_mode() {
    if (spec_.kind == "readers-writers" && percent(spec_.readers_percent)) return Mode::shared();
    if (spec_.kind != "permits") return Mode::exclusive();
    const auto capacity = static_cast<std::uint32_t>(spec_.capacity);
    return Mode::permits(1 + static_cast<std::uint32_t>(dice_.below((capacity + 1) / 2)), capacity);
  }
  // Limits waits, so that nobody waits long beyond the end.
  milliseconds some_wait() {
    if (percent(spec_.tries_percent)) return 0ms;
    return std::max<milliseconds>(about(spec_.wait), 1ms);
  }
  std::unique_ptr<ActorHold> ask(std::uint32_t lock, Mode mode, milliseconds wait) {
    Want want{lock, mode, spec_.ttl, wait, {}};
    if (wait == 0ms || !percent(spec_.cancels_percent)) return actor_.acquire(want);
    std::stop_source source;
    want.cancel = source.get_token();
    const milliseconds patience = about(std::min<milliseconds>(wait, spec_.hold));
    std::jthread impatient([&source, patience](const std::stop_token& stop) {
      std::mutex mutex;
      std::unique_lock guard(mutex);
      std::condition_variable_any never;
      if (!never.wait_for(guard, stop, patience, [&] { return stop.stop_requested(); })) {
        source.request_stop();
      }
    });
    return actor_.acquire(want);
  }

  void single() {
    auto hold = ask(some_lock(), some_mode(), some_wait());
    if (hold == nullptr) return;
    use(*hold, about(spec_.hold));
    if (spec_.release || !dice_.one_in(4)) hold->release();
  }

  // Checks now and then that the lock is still held. It writes at the end, like a program that
  // works for long and then stores its result.
  void use(ActorHold& hold, milliseconds span) {
    const std::int64_t until = now_ns() + std::chrono::nanoseconds(span).count();
    while (!over() && now_ns() < until) {
      if (spec_.careful && !hold.held()) return;
      if (percent(spec_.renews_percent)) hold.renew(spec_.ttl);
      const std::chrono::nanoseconds left(std::max<std::int64_t>(until - now_ns(), 0));
      const milliseconds look = std::max<milliseconds>(kLook, span / 8);
      nap(std::min<milliseconds>(look, std::chrono::ceil<milliseconds>(left)));
    }
    for (std::int64_t i = 0; i < spec_.writes; ++i) {
      if (spec_.careful && !hold.held()) return;
      hold.write();
    }
  }

  // Acquires several locks in the order of their names: nested, or all or none.
  void several() {
    std::vector<std::uint32_t> locks;
    while (locks.size() < static_cast<std::size_t>(spec_.depth)) {
      const std::uint32_t lock = some_lock();
      if (std::find(locks.begin(), locks.end(), lock) == locks.end()) locks.push_back(lock);
    }
    std::sort(locks.begin(), locks.end());
    std::vector<std::unique_ptr<ActorHold>> holds;
    const bool all_or_none = spec_.kind == "multi";
    for (const std::uint32_t lock : locks) {
      auto hold = ask(lock, Mode::exclusive(), some_wait());
      if (hold == nullptr) break;
      holds.push_back(std::move(hold));
      if (!all_or_none) use(*holds.back(), about(spec_.hold));
    }
    if (all_or_none && holds.size() == locks.size()) {
      for (const auto& hold : holds) use(*hold, about(spec_.hold));
    }
    while (!holds.empty()) {
      holds.back()->release();
      holds.pop_back();
    }
  }

  // Leads until the leadership is lost, or the term is over.
  void candidate() {
    auto hold = ask(shift_.first_lock, Mode::exclusive(), some_wait());
    if (hold == nullptr) return;
    const std::int64_t term = now_ns() + std::chrono::nanoseconds(about(spec_.hold)).count();
    while (!over() && now_ns() < term && hold->held()) {
      hold->write();
      nap(std::max<milliseconds>(spec_.think, kLook));
    }
    hold->release();
  }

  Actor& actor_;
  const Shift& shift_;
  const WorkloadSpec& spec_;
  Dice dice_;
};

}  // namespace

Pace Pace::of(const Scenario& scenario, std::int64_t begin_ns, std::int64_t until_ns) {
  constexpr std::uint64_t kPerSecond = 24'000;  // For all clients together.
  constexpr std::uint64_t kMost = 600'000;      // A hundred megabytes.
  constexpr std::uint64_t kMostOfAll = 2'400'000;
  const auto ms =
      static_cast<std::uint64_t>(std::max<std::int64_t>(until_ns - begin_ns, 0)) / 1'000'000;
  std::uint64_t at_once = 1000;
  for (const WorkloadSpec& spec : scenario.workloads) {
    at_once += static_cast<std::uint64_t>(spec.owners * spec.depth * (50 + 4 * spec.writes));
  }
  const auto clients = static_cast<std::uint64_t>(scenario.clients.processes);
  const std::uint64_t all = std::min(kMostOfAll, ms * kPerSecond / 1000);
  return {.room = std::min(kMost, all / clients) + 2 * at_once,
          .spare = at_once,
          .begin_ns = begin_ns,
          .until_ns = until_ns};
}

Pace Pace::after(std::uint64_t recorded) const {
  Pace pace = *this;
  pace.used += recorded;
  return pace;
}

bool Pace::is_ahead(std::uint64_t recorded, std::int64_t at_ns) const {
  if (room == 0) return false;
  const double part = static_cast<double>(at_ns - begin_ns) /
                      static_cast<double>(std::max<std::int64_t>(until_ns - begin_ns, 1));
  return static_cast<double>(used + recorded) > static_cast<double>(room) * (0.1 + 0.8 * part);
}

std::vector<std::string> lock_names(const Scenario& scenario, const std::string& prefix) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < scenario.workloads.size(); ++i) {
    const WorkloadSpec& spec = scenario.workloads[i];
    for (std::int64_t lock = 0; lock < spec.locks; ++lock) {
      names.push_back(prefix + "/" + spec.kind + "-" + std::to_string(i) + "/" +
                      std::to_string(lock));
    }
  }
  return names;
}

void work(Actor& actor, const Shift& shift) { Worker(actor, shift).work(); }

}  // namespace holdfast::lab
