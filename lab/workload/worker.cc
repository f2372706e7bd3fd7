#include "lab/workload/worker.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "src/machine/testing/dice.h"

#include "lab/scenario/files.h"
#include "lab/workload/workload.h"

namespace holdfast::lab {
namespace {

using Dice = machine::testing::Dice;

template <typename T>
T taken(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message());
  return std::move(*result);
}

// Kills or stops the process at the points of the scenario.
class Points {
 public:
  Points(const Scenario& scenario, Recorder& recorder, std::uint64_t seed, std::uint32_t slot)
      : scenario_(scenario), recorder_(recorder), dice_(seed), slot_(slot) {
    done_.resize(scenario.nemeses.size());
  }

  void pass(std::string_view point) {
    for (std::size_t i = 0; i < scenario_.nemeses.size(); ++i) {
      const NemesisSpec& spec = scenario_.nemeses[i];
      if (spec.at != point) continue;
      {
        const std::lock_guard lock(mutex_);
        if (spec.times != 0 && done_[i] >= spec.times) continue;
        if (!dice_.one_in(static_cast<std::uint64_t>(spec.one_in))) continue;
        ++done_[i];
      }
      spec.kind == "kill" ? die() : stand_still(spec.lasts);
    }
  }

 private:
  [[noreturn]] void die() {
    Event death;
    death.kind = Kind::kDeath;
    recorder_.record(death);
    ::raise(SIGKILL);
    std::terminate();
  }
  void stand_still(milliseconds span) {
    Event fault;
    fault.kind = Kind::kFault;
    fault.fault = FaultKind::kPause;
    fault.target = slot_;
    fault.phase = Phase::kInvoke;
    note(fault, +1);
    std::this_thread::sleep_for(span);
    fault.phase = Phase::kReturn;
    note(fault, -1);
  }
  // Records one fault, however many owners stand still at once.
  void note(const Event& fault, int change) {
    const std::lock_guard lock(mutex_);
    const int before = standing_;
    standing_ += change;
    if (std::min(before, standing_) == 0) recorder_.record(fault);
  }

  const Scenario& scenario_;
  Recorder& recorder_;
  std::mutex mutex_;
  Dice dice_;
  const std::uint32_t slot_;
  int standing_ = 0;
  std::vector<std::int64_t> done_;
};

// The first failure in any thread.
class Trouble {
 public:
  void watch(const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!first_) first_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

// Runs each in a thread of its own; returns when all have ended.
void work_all(Stage& stage, const std::vector<Shift>& shifts) {
  Trouble trouble;
  {
    std::vector<std::jthread> threads;
    threads.reserve(shifts.size());
    std::uint32_t owner = 0;
    for (const Shift& shift : shifts) {
      threads.emplace_back([&, number = ++owner] {
        trouble.watch([&] {
          Actor actor(stage, number);
          work(actor, shift);
        });
      });
    }
  }
  trouble.rethrow();
}

}  // namespace

std::string scenario_file(const std::string& folder) { return folder + "/scenario.toml"; }
std::string resource_file(const std::string& folder) { return folder + "/resource"; }

void run_worker(const WorkerOrders& orders, const std::vector<SubjectKind>& subjects) {
  const Scenario scenario = taken(read_scenario_file(scenario_file(orders.folder)));
  const auto kind = std::find_if(subjects.begin(), subjects.end(), [&](const SubjectKind& each) {
    return each.name == scenario.clients.subject;
  });
  if (kind == subjects.end()) throw std::runtime_error("no such subject");
  const Pace pace = Pace::of(scenario, orders.begin_ns, orders.until_ns).after(orders.recorded);
  Recorder recorder = taken(Recorder::create(orders.folder, orders.process, pace.capacity()));
  Resource resource = taken(Resource::open(resource_file(orders.folder)));
  Dice dice(scenario.seed * 1'000'003 + orders.process);
  Points points(scenario, recorder, dice.draw(), orders.slot);
  const std::unique_ptr<Subject> subject =
      kind->make({orders.urls, "client " + std::to_string(orders.slot), dice.draw(),
                  [&](std::string_view point) { points.pass(point); }});
  Stage stage{*subject, recorder, resource, orders.process, lock_names(scenario, orders.prefix)};
  std::vector<Shift> shifts;
  std::uint32_t first_lock = 0;
  for (const WorkloadSpec& spec : scenario.workloads) {
    for (std::int64_t i = 0; i < spec.owners; ++i) {
      shifts.push_back({spec, first_lock, dice.draw(), orders.until_ns, pace});
    }
    first_lock += static_cast<std::uint32_t>(spec.locks);
  }
  work_all(stage, shifts);
}

}  // namespace holdfast::lab
