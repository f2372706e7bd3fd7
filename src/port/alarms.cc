#include "src/port/alarms.h"

#include <utility>

#include "src/port/boot_timer.h"

namespace holdfast::port {

struct Alarms::State : std::enable_shared_from_this<State> {
  explicit State(asio::io_context& io) : timer(io) {}

  void arm() {
    // The first one's task may destroy the owner, so the timer holds on to nothing.
    timer.arm_at(tasks.begin()->first, [weak = weak_from_this()] {
      if (const auto state = weak.lock()) state->run_due();
    });
  }
  void run_due() {
    while (!tasks.empty() && tasks.begin()->first <= base::BootClock::now()) {
      const Task task = std::move(tasks.begin()->second);
      tasks.erase(tasks.begin());
      task();
    }
    if (!tasks.empty()) arm();
  }

  BootTimer timer;
  std::multimap<base::BootInstant, Task> tasks;
  bool stopped = false;
};

Alarms::Alarms(asio::io_context& io) : state_(std::make_shared<State>(io)) {}

Alarms::~Alarms() { stop(); }

Alarms::Alarm Alarms::at(base::BootInstant when, Task task) {
  if (state_->stopped) return state_->tasks.end();
  const Alarm alarm = state_->tasks.emplace(when, std::move(task));
  if (alarm == state_->tasks.begin()) state_->arm();
  return alarm;
}

void Alarms::cancel(Alarm alarm) {
  if (!state_->stopped) state_->tasks.erase(alarm);
}

std::vector<Task> Alarms::stop() noexcept {
  if (std::exchange(state_->stopped, true)) return {};
  state_->timer.stop();
  std::vector<Task> left;
  left.reserve(state_->tasks.size());
  for (auto& [when, task] : std::exchange(state_->tasks, {})) left.push_back(std::move(task));
  return left;
}

void Alarms::abandon() noexcept {
  state_->timer.abandon();
  state_->stopped = true;
}

}  // namespace holdfast::port
