// The lock service on etcd, several servers with one journal, in a world of one seed: EtcdJournal,
// shard, fold and compactor are the true ones; etcd, the network, the clocks and the clients are
// simulated (crowd.h has what must hold).
//
// HOLDFAST_SIM_SEEDS=20000 plays more worlds; HOLDFAST_SIM_SEED=N replays one. The threads run one
// at a time, so on one processor it is more than twice as fast (taskset -c 0).
#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/cluster/crowd.h"
#include "tests/cluster/sim_etcd.h"
#include "tests/cluster/sim_server.h"
#include "tests/simulation/seeds.h"

namespace holdfast::testing::cluster {
namespace {

using namespace std::chrono_literals;

constexpr Nanos kFaults = 30s;    // So long things go wrong.
constexpr Nanos kPatience = 60s;  // Longer than any lease, and a take-over.
constexpr Nanos kSlice = 500ms;

// Over all seeds: what the worlds had in them.
struct Seen {
  Crowd::Tally crowd;
  SimEtcd::Tally etcd;
};
Seen seen;

class ClusterRun {
 public:
  explicit ClusterRun(std::uint64_t seed)
      : world_(seed), etcd_(world_), crowd_(world_, etcd_, [this](auto which, const auto& message) {
          servers_now_[which % servers_now_.size()]->receive(which, message);
        }) {}
  ~ClusterRun() {
    world_.closing = true;
    for (SimServer& each : servers_) each.finish();
  }
  ClusterRun(const ClusterRun&) = delete;
  ClusterRun& operator=(const ClusterRun&) = delete;

  // The dice after play() show whether two runs had the same steps.
  std::uint64_t next_draw() { return world_.dice.draw(); }

  std::string play() {
    auto& dice = world_.dice;
    world_.loses = !dice.one_in(5);
    world_.pauses = !dice.one_in(3);
    world_.deaths = !dice.one_in(3);
    ends_early_ = !dice.one_in(3);
    hits_leaders_ = dice.one_in(4);
    if (hits_leaders_) world_.loses = world_.deaths = false;
    if (dice.one_in(4)) address_ = "balancer";
    const std::size_t servers = 2 + dice.below(2);
    for (std::size_t each = 0; each < servers; ++each) servers_now_.push_back(&add_server());
    between_ = dice.one_in(3) ? 8s : 3s;
    crowd_.on_lead = [this](const std::string& name) { stop_new_leader(name); };
    crowd_.on_entry = [this] {
      if (std::exchange(cuts_at_entry_, false)) cut_leader();
    };
    crowd_.on_closing = [this] {
      if (std::exchange(cuts_at_closing_, false)) cut_leader();
    };
    crowd_.begin(3 + dice.below(6));
    world_.after(world_.upto(2s), [this] { go_wrong(); });
    go_on(kFaults);
    settle();
    note();
    return crowd_.failure();
  }

 private:
  SimServer& add_server() { return servers_.emplace_back(world_, ++numbers_, crowd_, address_); }

  void go_on(Nanos time) {
    const Nanos until = world_.now + time;
    while (crowd_.failure().empty() && world_.now < until && world_.step()) {
    }
  }

  // One fault.
  void go_wrong() {
    if (healed_) return;
    auto& dice = world_.dice;
    if (world_.now < calm_until_) return world_.at(calm_until_, [this] { go_wrong(); });
    world_.after(world_.upto(between_), [this] { go_wrong(); });  // The next one.
    if (hits_leaders_) return hit_leader(30);
    SimServer*& server = dice.pick(servers_now_);
    switch (dice.below(13)) {
      case 0:
      case 1:
        if (world_.pauses) server->process().pause(world_.upto(dice.one_in(2) ? 1s : 8s));
        break;
      case 2:
        if (world_.deaths) replace(server);
        break;
      case 3:
        cuts_at_closing_ = dice.one_in(2);
        if (world_.deaths) (leader() != nullptr ? leader() : server)->stop();
        break;
      case 4:
        if (ends_early_) etcd_.end_leadership();
        break;
      case 5:
        if (world_.loses) etcd_.cut_off(server->process(), world_.upto(6s), dice.one_in(3));
        break;
      case 6:
        if (world_.loses) etcd_.fall_silent(world_.upto(1500ms));
        break;
      case 7:
        etcd_.set_full(true);
        world_.after(world_.upto(3s), [this] { etcd_.set_full(false); });
        break;
      case 8:
      case 9: cuts_at_entry_ = true; break;
      case 10:
        if (SimServer* const one = leader()) etcd_.deny(one->process(), world_.upto(1s));
        break;
      default: cut_leader_with_a_holder(20); break;
    }
  }

  // Several may have that address. Then one that has led for a while is found.
  SimServer* find(const std::string& address) {
    SimServer* found = nullptr;
    for (SimServer* each : servers_now_) {
      if (each->address() != address) continue;
      if (found == nullptr || each->shard() != nullptr) found = each;
    }
    return found;
  }
  SimServer* leader() { return find(etcd_.value_of("hf1/j/leader")); }

  // It hears nothing of its end, and clients go on asking it. The worst moments: its batch has
  // just arrived, or a client counts on a lease.
  void cut_leader() {
    SimServer* const cut = leader();
    if ((!world_.loses && !hits_leaders_) || cut == nullptr) return;
    const bool confirms = world_.dice.one_in(2);
    const Nanos time = confirms ? 3s + world_.upto(5s) : 1s + world_.upto(5s);
    etcd_.cut_off(cut->process(), time, confirms);
    if (ends_early_ && world_.percent(60)) world_.after({}, [this] { etcd_.end_leadership(); });
  }

  void cut_leader_with_a_holder(int tries) {
    if (crowd_.somebody_counts_on_a_lease() || tries == 0) return cut_leader();
    world_.after(100ms, [this, tries] { cut_leader_with_a_holder(tries - 1); });
  }

  void hit_leader(int tries) {
    SimServer* const hit = leader();
    if (hit == nullptr || tries == 0 || world_.now < calm_until_) return;
    if (!crowd_.somebody_depends_on_one_server()) {
      return world_.after(100ms, [this, tries] { hit_leader(tries - 1); });
    }
    calm_until_ = world_.now + 8s;
    if (world_.dice.one_in(3)) {
      cuts_at_closing_ = true;
      return hit->stop();
    }
    // The leader trusts its deadline when it stops to run, and goes on when another one has led for
    // long. It then reads first what was asked meanwhile.
    etcd_.cut_off(hit->process(), 10s, /*confirms=*/false);
    if (ends_early_) world_.after({}, [this] { etcd_.end_leadership(); });
    world_.after(500ms + world_.upto(1s),
                 [this, hit] { hit->process().pause(2500ms + world_.upto(3s)); });
  }

  // While it reads the journal, it loses the lead.
  void stop_new_leader(const std::string& name) {
    if (!world_.pauses || !world_.dice.one_in(4)) return;
    world_.after(world_.upto(20ms), [this, name] {
      if (SimServer* const one = find(name)) one->process().pause(2s + world_.upto(8s));
      if (ends_early_ && world_.percent(60)) etcd_.end_leadership();
    });
  }

  void replace(SimServer*& server) {
    server->process().die();
    server = &add_server();
    server->process().pause(world_.upto(2s));
  }

  // Faults end, and the clients go: then nothing stays held, and the next one is served.
  void settle() {
    healed_ = true;
    world_.loses = world_.pauses = world_.deaths = false;
    etcd_.heal();
    crowd_.leave();
    std::string held = "nobody leads although all is well";
    for (Nanos waited{}; waited < kPatience && !held.empty(); waited += kSlice) {
      go_on(kSlice);
      held = what_is_held();
    }
    if (!held.empty()) return crowd_.fail(held);
    for (Nanos waited{}; waited < kPatience && !crowd_.last_holds(); waited += kSlice) {
      crowd_.come_last();
      go_on(kSlice);
    }
    if (!crowd_.last_holds()) crowd_.fail("the last is not served");
  }

  std::string what_is_held() const {
    std::string held = "nobody leads although all is well";
    for (const SimServer* each : servers_now_) {
      if (each->shard() == nullptr) continue;
      held.clear();
      for (const machine::LockImage& lock : each->shard()->machine().snapshot().locks) {
        if (!lock.tickets.empty()) held = "'" + lock.name + "' is held although all have gone";
      }
    }
    return held;
  }

  void note() const {
    const Crowd::Tally& one = crowd_.tally;
    Crowd::Tally& all = seen.crowd;
    all.told += one.told;
    all.renewed += one.renewed;
    all.terms += one.terms;
    all.inherited += one.inherited;
    all.parts += one.parts;
    all.snapshots += one.snapshots;
    all.unknown += one.unknown;
    all.refused += one.refused;
    seen.etcd.repeated += etcd_.tally.repeated;
    seen.etcd.late += etcd_.tally.late;
    seen.etcd.refused += etcd_.tally.refused;
    seen.etcd.stale += etcd_.tally.stale;
  }

  simulation::World world_;
  SimEtcd etcd_;
  Crowd crowd_;
  std::deque<SimServer> servers_;  // Dead ones stay in it.
  std::vector<SimServer*> servers_now_;
  std::uint64_t numbers_ = 0;
  Nanos between_{};  // Two faults, at most.
  bool ends_early_ = false;
  bool cuts_at_entry_ = false;
  bool cuts_at_closing_ = false;
  std::string address_;  // All servers have it, as behind a load balancer. Empty: each has its own.
  bool healed_ = false;
  bool hits_leaders_ = false;  // And there are no other faults.
  Nanos calm_until_{};         // No fault comes before.
};

constexpr std::uint64_t kUsual = simulation::usually(150, 15);

TEST(ClusterSimulation, NoTwoCountOnALockAndNoGrantIsLost) {
  simulation::play_seeds<ClusterRun>(kUsual, "ctest -R cluster_simulation_test");
  // A few worlds need not have all of it.
  if (HasFailure() || simulation::number_from("HOLDFAST_SIM_SEEDS", kUsual) < kUsual ||
      simulation::number_from("HOLDFAST_SIM_SEED", 0) != 0) {
    return;
  }
  // The worlds had all of it in them.
  EXPECT_GT(seen.crowd.told, kUsual);
  EXPECT_GT(seen.crowd.renewed, kUsual);
  EXPECT_GT(seen.crowd.terms, 2 * kUsual);
  EXPECT_GT(seen.crowd.inherited, kUsual / 4);
  EXPECT_GT(seen.crowd.parts, kUsual / 3);
  EXPECT_GT(seen.crowd.snapshots, kUsual);
  EXPECT_GT(seen.crowd.unknown, 0U);
  EXPECT_GT(seen.crowd.refused, 0U);
  EXPECT_GT(seen.etcd.repeated, kUsual);
  EXPECT_GT(seen.etcd.late, kUsual);
  EXPECT_GT(seen.etcd.refused, kUsual);
  EXPECT_GT(seen.etcd.stale, kUsual);
}

std::uint64_t draw_after(std::uint64_t seed) {
  ClusterRun run(seed);
  EXPECT_EQ(run.play(), "") << "seed " << seed;
  return run.next_draw();
}

// Else a seed does not replay what a long run has found.
TEST(ClusterSimulation, AWorldDoesNotDependOnThoseBeforeIt) {
  const std::uint64_t first = draw_after(3);
  draw_after(4);
  EXPECT_EQ(draw_after(3), first);
}

}  // namespace
}  // namespace holdfast::testing::cluster
