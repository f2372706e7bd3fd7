#include "lab/runner/stall_watch.h"

#include <chrono>
#include <cstdint>

#include "lab/rig/targets.h"
#include "lab/subject/subject.h"

namespace holdfast::lab {
namespace {

constexpr milliseconds kTurn{20};
constexpr std::int64_t kStall = 300'000'000;

}  // namespace

StallWatch::StallWatch(Recorder& recorder)
    : recorder_(recorder), thread_([this](const std::stop_token& stop) { run(stop); }) {}

void StallWatch::run(const std::stop_token& stop) {
  for (std::int64_t before = now_ns(); !stop.stop_requested();) {
    std::this_thread::sleep_for(kTurn);
    const std::int64_t now = now_ns();
    if (now - before > kStall) {
      Event fault;
      fault.kind = Kind::kFault;
      fault.fault = FaultKind::kStall;
      fault.target = kHost;
      fault.phase = Phase::kInvoke;
      fault.at_ns = before;
      recorder_.record_as_stamped(fault);
      fault.phase = Phase::kReturn;
      fault.at_ns = now;
      recorder_.record_as_stamped(fault);
      ++seen_;
    }
    before = now;
  }
}

}  // namespace holdfast::lab
