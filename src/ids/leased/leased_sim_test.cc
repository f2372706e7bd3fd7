// Several processes take worker numbers of one namespace, in hundreds of random runs: requests and
// answers are lost, late and repeated, leases end and are broken, processes die, sleep beyond their
// lease and wake up, wall clocks are set back and forward, and records disappear. No id is given
// twice. HOLDFAST_SIM_SEEDS=20000 runs more of them, HOLDFAST_SIM_SEED=n replays one.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/ids/fake_clock.h"
#include "src/ids/leased/slot.h"
#include "src/ids/segments/testing/model_records.h"
#include "tests/simulation/seeds.h"

namespace holdfast::ids {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::ModelStore;

constexpr milliseconds kTtl{1'000};
const std::string kModelName = "orders";

// How often the troubles were really there.
struct Troubles {
  std::uint64_t ids = 0;
  std::uint64_t taken = 0;
  std::uint64_t by_sleepers = 0;  // Ids that a process gave whose lease the store had ended.
  std::uint64_t lost = 0;
  std::uint64_t fenced = 0;  // Bounds that were refused, because another holder had come.
  std::uint64_t left_out = 0;
  std::uint64_t five_in_a_row = 0;  // Clocks that were set back so often.
  std::uint64_t gone = 0;           // Records.
};
Troubles troubles;

// The boot time that all processes share, and the leases in the store.
struct SharedWorld {
  struct Held {
    Token token{};
    nanoseconds end{};
  };
  nanoseconds boot = std::chrono::hours(1);
  std::int64_t ticks = 1;
  std::uint64_t grants = 0;
  std::map<std::uint64_t, Held> held{};

  void pass(nanoseconds time) {
    boot += time;
    ++ticks;
  }
};

class ProcessClock final : public IdClock {
 public:
  explicit ProcessClock(SharedWorld& world) : world_(world) {}
  Reading read() override { return {kNow + world_.boot + offset, world_.boot}; }
  std::int64_t tick() override { return world_.ticks; }
  void sleep(nanoseconds time) override { world_.pass(std::max(time, nanoseconds(1'000))); }

  nanoseconds offset{};  // The wall clock is set by so much.

 private:
  SharedWorld& world_;
};

class ModelLease final : public SlotLease {
 public:
  ModelLease(SharedWorld& world, std::uint64_t worker) : world_(world), worker_(worker) {
    token_ = {0, ++world.grants};
    deadline_ = world.boot + kTtl;
    world.held[worker] = {token_, deadline_};
  }
  Token token() const override { return token_; }
  bool held() const override { return world_.boot < deadline_; }
  nanoseconds deadline() const override { return deadline_; }
  void release() override {
    if (in_store()) world_.held.erase(worker_);
    deadline_ = {};
  }
  void renew() {
    if (held() && in_store()) world_.held[worker_].end = deadline_ = world_.boot + kTtl;
  }
  bool in_store() const {
    const auto found = world_.held.find(worker_);
    return found != world_.held.end() && found->second.token == token_ &&
           world_.boot < found->second.end;
  }

 private:
  SharedWorld& world_;
  const std::uint64_t worker_;
  Token token_;
  nanoseconds deadline_;
};

struct Process {
  Process(SharedWorld& world, ModelStore& store, int number) : clock(world) {
    const base::LocalLock lock(records->mutex);
    records->records = store.client(number);
  }

  ProcessClock clock;
  SharedRecordsPtr records = std::make_shared<SharedRecords>();
  ModelLease* lease = nullptr;  // The permit's.
  std::shared_ptr<ReservingPermit> permit{};
  std::unique_ptr<Snowflake> ids{};
  std::int64_t last_unit = -1;
  bool busy = false;
};

ClockPolicy policy_of(std::uint64_t kind) {
  switch (kind) {
    case 0: return ClockPolicy::logical();
    case 1: return ClockPolicy::logical().borrow(milliseconds(20));
    case 2: return ClockPolicy::refuse();
    case 3: return ClockPolicy::wait(milliseconds(30));
    case 4: return ClockPolicy::step_sequence(2);
    default: return ClockPolicy::extension_bits(2, milliseconds(3));
  }
}

class LeasedRun {
 public:
  explicit LeasedRun(std::uint64_t seed) : store_(seed) { loses_records_ = store_.dice.one_in(4); }

  // Empty: nothing went wrong.
  std::string play() {
    const LeasedWorkersSpec spec{*Layout::parse("time:41 worker:2 sequence:3"),
                                 policy_of(store_.dice.below(6)), 3};
    auto maker = store_.client(0);
    if (auto made = create_workers(*maker, kModelName, spec, {}); !made) {
      return made.error().message();
    }
    head_ = std::make_unique<WorkersHead>(*read_workers_head(*maker, kModelName, {}));
    for (int i = 1; i <= 4; ++i) {
      processes_.push_back(std::make_unique<Process>(world_, store_, i));
    }
    store_.faults = store_.dice.pick(kFaults);
    store_.meanwhile = [this] {
      if (depth_ < 3 && store_.dice.one_in(3)) step();
    };
    for (int i = 0; i < kSteps && wrong_.empty(); ++i) step();
    store_.meanwhile = nullptr;
    store_.faults = 0;
    if (wrong_.empty() && !lost_records_) finish();
    return wrong_;
  }

 private:
  static constexpr int kSteps = 300;
  inline static std::vector<std::uint64_t> kFaults{0, 5, 25};

  void wrong(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }

  void step() {
    ++depth_;
    if (store_.dice.one_in(3)) pass_time();
    if (!store_.late.empty() && store_.dice.one_in(6)) {
      const ModelStore::Change change = store_.late.front();
      store_.late.pop_front();
      store_.apply(change);
    }
    Process& process = *store_.dice.pick(processes_);
    if (!process.busy) {
      process.busy = true;
      act(process);
      process.busy = false;
    }
    --depth_;
  }

  void pass_time() {
    const std::uint64_t kind = store_.dice.below(20);
    const std::uint64_t most = kind == 0 ? 4'000 : kind < 4 ? 600 : 5;
    world_.pass(milliseconds(store_.dice.below(most)));
  }

  void act(Process& process) {
    switch (store_.dice.below(12)) {
      case 0: return set_clock(process);
      case 1:
        if (store_.dice.one_in(4)) return die(process);
        return;
      case 2:
        if (store_.dice.one_in(4)) return end(process);
        return;
      case 3: return trouble();
      case 4:
      case 5:
        if (process.permit) process.permit->look_ahead();
        return;
      case 6:
      case 7:
        if (process.lease != nullptr) process.lease->renew();
        return;
      default: process.ids ? give(process) : take(process);
    }
  }

  void set_clock(Process& process) {
    constexpr std::array<std::int64_t, 6> kBack{1, 5, 200, 3'000, 60'000, 86'400'000};
    constexpr std::array<std::int64_t, 4> kForward{3, 100, 3'000, 7'200'000};
    const bool back = store_.dice.one_in(2);
    const std::int64_t by = back ? kBack.at(store_.dice.below(kBack.size()))
                                 : kForward.at(store_.dice.below(kForward.size()));
    process.clock.offset += milliseconds(back ? -by : by);
    ++world_.ticks;
    // Five in a row, with ids between them.
    for (int more = back && store_.dice.one_in(4) ? 4 : 0; more > 0 && process.ids; --more) {
      give(process);
      world_.pass(milliseconds(store_.dice.below(3)));
      process.clock.offset -= milliseconds(kBack.at(store_.dice.below(3)));
      ++world_.ticks;
      if (more == 1) ++troubles.five_in_a_row;
    }
    if (store_.dice.one_in(3)) process.clock.offset = {};
  }

  void trouble() {
    if (world_.held.empty()) return;
    if (store_.dice.one_in(8))
      world_.held.erase(world_.held.begin());  // An operator breaks a lock.
    if (!loses_records_ || !store_.dice.one_in(40)) return;
    store_.records.erase(head_->slot_key(store_.dice.below(3)));
    lost_records_ = true;
  }

  // It sleeps from now on, and may wake up for a moment at any time.
  void die(Process& process) {
    if (!process.ids) return;
    auto asleep = std::make_unique<Process>(world_, store_, 0);
    asleep->ids = std::move(process.ids);  // It goes on with the clock of its host.
    std::swap(asleep->records, process.records);
    asleep->lease = std::exchange(process.lease, nullptr);
    asleep->permit = std::exchange(process.permit, nullptr);
    process.last_unit = -1;
    sleepers_.push_back(std::move(asleep));
  }

  void end(Process& process) {
    if (!process.ids) return;
    process.last_unit = process.ids->last_unit();
    process.ids = nullptr;
    process.permit = nullptr;
    process.lease = nullptr;
  }

  void take(Process& process) {
    const std::uint64_t worker = store_.dice.below(3);
    const auto held = world_.held.find(worker);
    if (held != world_.held.end() && world_.boot < held->second.end) return;
    auto lease = std::make_unique<ModelLease>(world_, worker);
    process.lease = lease.get();
    const SlotSetting setting{.records = process.records,
                              .ttl = kTtl,
                              .request_timeout = milliseconds(100),
                              .clock = &process.clock,
                              .looks_ahead = false,
                              .permit = &process.permit};
    const std::int64_t above = store_.dice.one_in(2) ? process.last_unit : -1;
    auto made = take_slot(*head_, worker, std::move(lease), above, setting);
    if (!made || !*made) process.lease = nullptr;
    if (!made) return judge(made.error());
    if (!*made) {
      ++troubles.left_out;
      return;
    }
    ++troubles.taken;
    process.ids = *std::move(made);
  }

  void give(Process& process) {
    std::array<std::uint64_t, 10> some{};
    const auto count = process.ids->next_batch(
        std::span(some).first(static_cast<std::size_t>(1 + store_.dice.below(some.size()))));
    for (std::size_t i = 0; count && i < *count; ++i) {
      ++troubles.ids;
      troubles.by_sleepers += process.lease->in_store() ? 0 : 1;
      if (!given_.insert(some[i]).second) wrong("an id was given twice");
    }
    if (count) return;
    judge(count.error());
    const bool over = count.error().code() == Errc::kLost;
    if (over || (lost_records_ && count.error().code() == Errc::kCorruptState)) end(process);
    if (!over) return;
    ++troubles.lost;
    troubles.fenced += count.error().message().find("another holder") != std::string::npos ? 1 : 0;
  }

  void judge(const Error& error) {
    switch (error.code()) {
      case Errc::kLost:
      case Errc::kUnavailable:
      case Errc::kOutcomeUnknown: break;
      case Errc::kCorruptState:
        ++troubles.gone;
        if (!lost_records_) wrong("no record was lost: " + error.message());
        break;
      default: wrong(error.message());
    }
    if (!sleepers_.empty() && store_.dice.one_in(3)) {
      Process& awake = *store_.dice.pick(sleepers_);
      if (!awake.busy && awake.ids) {
        awake.busy = true;
        give(awake);
        awake.busy = false;
      }
    }
  }

  // Without faults, and with clocks that are right, a process gets a number and ids again.
  void finish() {
    world_.pass(std::chrono::hours(30));
    for (const auto& process : processes_) {
      end(*process);
      process->clock.offset = {};
    }
    world_.held.clear();
    take(*processes_.front());
    if (wrong_.empty() && !processes_.front()->ids) take(*processes_.front());
    if (!processes_.front()->ids) return wrong("no number although the store serves");
    const std::size_t before = given_.size();
    give(*processes_.front());
    if (given_.size() == before) wrong("no id although the store serves");
  }

  ModelStore store_;
  SharedWorld world_;
  std::unique_ptr<WorkersHead> head_;
  // Sleepers outlive the others' leases, and are destroyed first.
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Process>> sleepers_;
  std::unordered_set<std::uint64_t> given_;
  int depth_ = 0;
  bool loses_records_ = false;
  bool lost_records_ = false;
  std::string wrong_;
};

TEST(LeasedSimTest, NoIdIsGivenTwice) {
  troubles = {};
  simulation::play_seeds<LeasedRun>(simulation::usually(1'500, 200), "ids_leased_test");
  if (std::getenv("HOLDFAST_SIM_SEED") != nullptr) return;
  EXPECT_GT(troubles.ids, 10'000U);
  EXPECT_GT(troubles.taken, 1'000U);
  EXPECT_GT(troubles.by_sleepers, 100U);
  EXPECT_GT(troubles.lost, 100U);
  EXPECT_GT(troubles.fenced, 10U);
  EXPECT_GT(troubles.left_out, 10U);
  EXPECT_GT(troubles.five_in_a_row, 100U);
  EXPECT_GT(troubles.gone, 10U);
}

}  // namespace
}  // namespace holdfast::ids
