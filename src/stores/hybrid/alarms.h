// Tasks of the loop, each at its time.
//
// Thread-safety: the loop only. Time: boot time. Nothing is called after stop().
#pragma once

#include <functional>
#include <map>

#include "src/base/clock.h"
#include "src/contend/loop_timer.h"

namespace holdfast::stores::hybrid {

class Alarms {
 public:
  using Task = std::function<void()>;

  explicit Alarms(asio::io_context& io) : timer_(io, [this] { run_due(); }) {}

  void at(base::BootInstant when, Task task);
  void stop();

 private:
  void run_due();

  std::multimap<base::BootInstant, Task> tasks_;
  contend::LoopTimer timer_;
};

}  // namespace holdfast::stores::hybrid
