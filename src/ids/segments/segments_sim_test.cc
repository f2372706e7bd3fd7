// Several processes take numbers from one counter, in hundreds of random runs: requests and answers
// are lost, late and repeated, callers sleep between a look and a claim, processes die, records
// disappear, and an older copy of the data is put back. No number is given twice, unless a process
// that could not know of the older copy went on from it. HOLDFAST_SIM_SEEDS=20000 runs more of
// them, HOLDFAST_SIM_SEED=n replays one.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/ids/segments/counter.h"
#include "src/ids/segments/supply.h"
#include "src/ids/segments/testing/model_records.h"
#include "tests/simulation/seeds.h"

namespace holdfast::ids {
namespace {

using testing::ModelStore;

const std::string kModelName = "orders";

// How often the troubles were really there.
struct Troubles {
  std::uint64_t numbers = 0;
  std::uint64_t claimed_late = 0;  // By a caller that slept.
  std::uint64_t missed_late = 0;
  std::uint64_t losses = 0;  // Processes that found one.
  std::uint64_t doubtful = 0;
  std::uint64_t floors = 0;
  std::uint64_t used_up = 0;
};
Troubles troubles;

struct Interval {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  bool has(std::uint64_t number) const { return begin <= number && number < end; }
};

bool covers(const std::vector<Interval>& all, std::uint64_t number) {
  return std::any_of(all.begin(), all.end(),
                     [number](const Interval& one) { return one.has(number); });
}

struct Process {
  int number = 0;
  std::unique_ptr<Supply> supply{};
  std::vector<Slots::Look> asleep{};
  std::vector<Interval> committed{};
  std::uint64_t given = 0;  // The highest so far.
  bool busy = false;        // A fetch is under way.
  bool dead = false;
  bool ended = false;
};

class SegmentsRun {
 public:
  explicit SegmentsRun(std::uint64_t seed) : store_(seed) {
    const std::uint64_t kind = store_.dice.below(4);
    loses_data_ = kind >= 2;
    store_.versions_go_back = kind == 3;
    last_ = store_.dice.one_in(4) ? 80 : 1'000'000;
    options_.step_min = 1 + store_.dice.below(5);
    options_.step_max = options_.step_min + store_.dice.below(40);
    store_.applied = [this](const auto& change, const auto& before) { see(change, before); };
  }

  // Empty: nothing went wrong.
  std::string play() {
    const auto made =
        create_segments(*store_.client(0), kModelName, {.first = 1, .last = last_}, {});
    if (!made) return made.error().message();
    creates_ = false;
    for (int i = 0; i < 3; ++i) begin();
    store_.faults = store_.dice.pick(kFaults);
    store_.meanwhile = [this] {
      if (depth_ < 3 && store_.dice.one_in(3)) step();
    };
    for (int i = 0; i < kSteps && wrong_.empty(); ++i) step();
    store_.meanwhile = nullptr;
    store_.faults = 0;
    if (wrong_.empty() && !loses_data_) finish();
    return wrong_;
  }

 private:
  static constexpr int kSteps = 400;
  inline static std::vector<std::uint64_t> kFaults{0, 5, 25};

  void wrong(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }

  void step() {
    ++depth_;
    now_ += std::chrono::seconds(store_.dice.below(15));
    if (store_.dice.one_in(60)) trouble();
    if (!store_.late.empty() && store_.dice.one_in(8)) apply_late();
    Process& process = *store_.dice.pick(processes_);
    if (!process.dead) act(process);
    --depth_;
    if (depth_ != 0) return;
    std::erase_if(processes_, [](const auto& one) { return one->dead; });
    while (processes_.size() < 3) begin();
  }

  void act(Process& process) {
    switch (store_.dice.below(4)) {
      case 0:
        if (!process.busy && !process.ended) fetch(process);
        return;
      case 1: process.asleep.push_back(process.supply->slots.look()); return;
      case 2:
        if (!process.asleep.empty()) wake(process);
        return;
      default:
        const Run run = process.supply->take(static_cast<std::uint32_t>(store_.dice.below(6) + 1));
        for (std::uint32_t i = 0; i < run.count; ++i) give(process, run.first + i);
    }
  }

  void wake(Process& process) {
    const auto at = store_.dice.below(process.asleep.size());
    const Slots::Look look = process.asleep[at];
    process.asleep.erase(process.asleep.begin() + static_cast<std::ptrdiff_t>(at));
    if (look.left() == 0) return;
    const bool claimed = process.supply->slots.claim(look, 1);
    ++(claimed ? troubles.claimed_late : troubles.missed_late);
    if (claimed) give(process, look.first + look.offset());
  }

  void fetch(Process& process) {
    process.busy = true;
    const auto fetched = process.supply->fetch(now_, now_);
    process.busy = false;
    if (fetched || process.dead) return;
    switch (fetched.error().code()) {
      case Errc::kUnavailable: return;
      case Errc::kUnsupported:
        ++troubles.used_up;
        if (ever_ <= last_) wrong("used up before the last number");
        return;
      case Errc::kCorruptState:
        ++troubles.losses;
        if (!lost_data_ && !floor_set_) wrong("no data was lost: " + fetched.error().message());
        process.ended = true;
        process.supply->shut();
        return;
      default: wrong(fetched.error().message());
    }
  }

  void give(Process& process, std::uint64_t number) {
    ++troubles.numbers;
    if (number <= process.given) wrong("a process gave a lower number");
    process.given = number;
    if (!store_.versions_go_back && !covers(process.committed, number)) {
      wrong("number " + std::to_string(number) + " is used without a committed write");
    }
    const bool repeated = !given_.insert(number).second;
    if (repeated && !covers(doubtful_, number)) {
      wrong("number " + std::to_string(number) + " was given twice");
    }
  }

  // Every change of the store comes by here.
  void see(const ModelStore::Change& change, const std::string& before) {
    if (!change.key.ends_with("/counter")) return;
    const auto after = CounterState::parse(change.text, "after");
    if (!after) return wrong("a counter that cannot be read was written");
    if (!change.version) {
      if (!creates_) wrong("a counter was made anew");
      return;
    }
    const auto old = CounterState::parse(before, "before");
    // With versions that go back, a process may replace another text than it has seen.
    if (old->stopped && !after->stopped && !store_.versions_go_back) {
      wrong("a stopped counter goes on");
    }
    if (after->next == old->next) return;  // Stopped.
    const bool repeats = old->next < ever_;
    if (repeats) {
      ++troubles.doubtful;
      if (!restored_) wrong("the counter went back by itself");
      doubtful_.push_back({store_.versions_go_back ? 0 : old->next, ever_});
    }
    ever_ = std::max(ever_, after->next);
    for (const auto& process : processes_) {
      if (process->number != change.client) continue;
      // A late request may meet its version again. Nobody uses its range then.
      if (!store_.versions_go_back && !is_late_ && old->next <= process->given) {
        wrong("a process that had seen more went on from an older copy");
      }
      process->committed.push_back({old->next, after->next});
    }
  }

  void trouble() {
    switch (store_.dice.below(loses_data_ ? 6 : 2)) {
      case 0: store_.dice.pick(processes_)->dead = true; return;
      case 1: return set_floor();
      case 2: copy_ = store_.records; return;
      case 3:
      case 4:
        if (copy_.empty()) return;
        for (const auto& process : processes_) {  // Often nobody runs meanwhile.
          if (store_.dice.one_in(2)) process->dead = true;
        }
        store_.records = copy_;
        lost_data_ = restored_ = true;
        return;
      default:
        std::erase_if(store_.records,
                      [](const auto& record) { return record.first.ends_with("/counter"); });
        lost_data_ = true;
    }
  }

  void set_floor() {
    if (operator_busy_ || ever_ + 50 >= last_ || !store_.dice.one_in(4)) return;
    operator_busy_ = creates_ = floor_set_ = true;
    const std::uint64_t floor = ever_ + store_.dice.below(20);
    const auto set = set_segments_floor(*store_.client(0), kModelName, floor, "a test", now_);
    operator_busy_ = false;
    troubles.floors += set.has_value();
    // The counter that it made is not in use before the head names it.
    if (set) ever_ = std::max(ever_, floor + 1);
  }

  void apply_late() {
    const ModelStore::Change change = store_.late.front();
    store_.late.pop_front();
    is_late_ = true;
    store_.apply(change);
    is_late_ = false;
  }

  void begin() {
    const auto meanwhile = std::exchange(store_.meanwhile, nullptr);
    const std::uint64_t faults = std::exchange(store_.faults, 0);
    auto process = std::make_unique<Process>();
    process->number = ++begun_;
    auto records = store_.client(process->number);
    const auto head = read_segments_head(*records, kModelName, now_);
    if (!head) {
      wrong("no head: " + head.error().message());
    } else {
      process->supply = std::make_unique<Supply>(std::move(records), *head, options_,
                                                 [this](std::chrono::microseconds) {
                                                   if (store_.meanwhile) store_.meanwhile();
                                                 });
      processes_.push_back(std::move(process));
    }
    store_.faults = faults;
    store_.meanwhile = meanwhile;
  }

  // Without faults every process gets numbers again, unless a floor was set or they are used up.
  void finish() {
    if (floor_set_) return;
    for (const auto& process : processes_) {
      if (!process->supply->has_next()) fetch(*process);
      const Run run = process->supply->take(1);
      if (run.count == 0 && ever_ <= last_) wrong("no number although the store serves");
      if (run.count != 0) give(*process, run.first);
    }
  }

  ModelStore store_;
  SegmentsOptions options_{};
  bool loses_data_ = false;
  std::uint64_t last_ = 0;
  std::vector<std::unique_ptr<Process>> processes_;
  int begun_ = 0;
  int depth_ = 0;
  base::BootInstant now_{std::chrono::hours(1)};
  std::set<std::uint64_t> given_;
  std::vector<Interval> doubtful_;
  std::uint64_t ever_ = 1;  // The highest `next` that was ever committed.
  ModelStore::All copy_;
  bool creates_ = true;  // An operator makes a counter.
  bool operator_busy_ = false;
  bool floor_set_ = false;
  bool is_late_ = false;
  bool lost_data_ = false;
  bool restored_ = false;
  std::string wrong_;
};

TEST(SegmentsSimTest, NoNumberIsGivenTwice) {
  troubles = {};
  simulation::play_seeds<SegmentsRun>(simulation::usually(1'500, 200), "ids_segments_test");
  if (std::getenv("HOLDFAST_SIM_SEED") != nullptr) return;
  EXPECT_GT(troubles.numbers, 1'000U);
  EXPECT_GT(troubles.claimed_late, 10U);
  EXPECT_GT(troubles.missed_late, 10U);
  EXPECT_GT(troubles.losses, 10U);
  EXPECT_GT(troubles.doubtful, 10U);
  EXPECT_GT(troubles.floors, 10U);
  EXPECT_GT(troubles.used_up, 10U);
}

}  // namespace
}  // namespace holdfast::ids
