#include "src/stores/hybrid/alarms.h"

#include <utility>

namespace holdfast::stores::hybrid {

void Alarms::at(base::BootInstant when, Task task) {
  tasks_.emplace(when, std::move(task));
  timer_.arm(when);
}

void Alarms::stop() {
  timer_.stop();
  tasks_.clear();
}

void Alarms::run_due() {
  const auto now = base::BootClock::now();
  while (!tasks_.empty() && tasks_.begin()->first <= now) {
    const Task task = std::move(tasks_.begin()->second);
    tasks_.erase(tasks_.begin());
    task();
  }
  if (!tasks_.empty()) timer_.arm(tasks_.begin()->first);
}

}  // namespace holdfast::stores::hybrid
