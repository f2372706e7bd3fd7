#include "lab/nemesis/nemesis.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <utility>

#include "lab/rig/targets.h"

namespace holdfast::lab {
namespace {

using support::Direction;
using support::Fault;

constexpr milliseconds kMostSpinning{1500};

struct Known {
  const char* kind;
  FaultKind fault;
};
constexpr Known kKnown[] = {{"kill", FaultKind::kKill},
                            {"pause", FaultKind::kPause},
                            {"starve", FaultKind::kStarve},
                            {"partition", FaultKind::kPartition},
                            {"blackhole", FaultKind::kBlackhole},
                            {"loss", FaultKind::kLoss},
                            {"delay", FaultKind::kDelay},
                            {"hold", FaultKind::kHold},
                            {"duplicate", FaultKind::kDuplicate},
                            {"reorder", FaultKind::kReorder},
                            {"split", FaultKind::kSplit},
                            {"drop-replies", FaultKind::kDropReplies},
                            {"reset", FaultKind::kReset},
                            {"server-pause", FaultKind::kPause},
                            {"restart", FaultKind::kRestart},
                            {"restart-empty", FaultKind::kRestartEmpty},
                            {"failover", FaultKind::kFailover},
                            {"clock-jump", FaultKind::kClockJump},
                            {"disk-full", FaultKind::kDiskFull},
                            {"isolate", FaultKind::kIsolate},
                            {"move", FaultKind::kMove}};

FaultKind fault_of(const std::string& kind) {
  for (const Known& known : kKnown) {
    if (kind == known.kind) return known.fault;
  }
  throw std::runtime_error("no such nemesis: " + kind);
}

bool is_of_servers(const std::string& kind) {
  return kind == "server-pause" || kind == "restart" || kind == "restart-empty" ||
         kind == "failover" || kind == "disk-full" || kind == "isolate" || kind == "move";
}
bool is_process(const std::string& kind) { return kind == "kill" || kind == "pause"; }

// Gives all threads of a process the lowest priority, or takes that back. Best effort: without root
// the priority could not be raised again, so it is not lowered.
void give_way(pid_t pid, bool give) {
  if (pid <= 0 || ::geteuid() != 0) return;
  std::error_code problem;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (std::filesystem::directory_iterator each(tasks, problem), end; !problem && each != end;
       each.increment(problem)) {
    const sched_param none{};
    ::sched_setscheduler(std::stoi(each->path().filename().string()),
                         give ? SCHED_IDLE : SCHED_OTHER, &none);
  }
}

}  // namespace

Nemesis::Nemesis(const Scenario& scenario, const std::string& program, Rig& rig, Workers& workers,
                 Recorder& recorder)
    : scenario_(scenario),
      program_(program),
      rig_(rig),
      workers_(workers),
      recorder_(recorder),
      strikes_(schedule(scenario)),
      struck_by_(scenario.nemeses.size()) {}

Nemesis::~Nemesis() = default;

std::optional<milliseconds> Nemesis::next() const {
  std::optional<milliseconds> soonest;
  if (next_ < strikes_.size()) soonest = strikes_[next_].at;
  for (const Active& active : active_) {
    const milliseconds heals = active.strike.at + active.strike.lasts;
    if (!soonest || heals < *soonest) soonest = heals;
  }
  return soonest;
}

void Nemesis::step(milliseconds now) {
  for (std::size_t i = 0; i < active_.size();) {
    if (active_[i].strike.at + active_[i].strike.lasts <= now) {
      heal(active_[i]);
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  while (next_ < strikes_.size() && strikes_[next_].at <= now) {
    Active active{strikes_[next_++]};
    // A strike lasts from its real beginning, which may be late. So the strike before it may still
    // last.
    active.strike.at = now;
    find_node(active.strike);
    const bool too_early = std::any_of(active_.begin(), active_.end(), [&](const Active& other) {
      return exclude(scenario_, active.strike, other.strike);
    });
    if (too_early) continue;
    ++struck_;
    ++struck_by_[active.strike.nemesis];
    begin(active);
    active_.push_back(std::move(active));
  }
}

// Asks who has the role at this moment.
void Nemesis::find_node(Strike& strike) {
  if (strike.node == kLeader) strike.node = strike.member ? rig_.leading_member() : rig_.leader();
  if (strike.node == kFollower) {
    strike.node = strike.member ? rig_.following_member() : rig_.follower();
  }
}

void Nemesis::heal_all() {
  next_ = strikes_.size();
  while (!active_.empty()) {
    heal(active_.back());
    active_.pop_back();
  }
}

std::uint32_t Nemesis::target_of(const Strike& strike) const {
  const std::string& kind = spec(strike).kind;
  if (kind == "starve") return kHost;
  if (strike.member) return member_target(scenario_, strike.node);
  if (strike.slot == 0) return server_target(scenario_, strike.node);
  return is_process(kind) ? client_target(strike.slot) : link_target(scenario_, strike.slot);
}

std::string Nemesis::active() const {
  const std::vector<std::string> names = target_names(scenario_);
  std::string text;
  for (const Active& active : active_) {
    text += (text.empty() ? "" : ", ") + spec(active.strike).kind + " of " +
            names[target_of(active.strike)];
  }
  return text;
}

void Nemesis::mark(const Strike& strike, Phase phase) {
  Event event;
  event.kind = Kind::kFault;
  event.phase = phase;
  event.fault = fault_of(spec(strike).kind);
  event.target = target_of(strike);
  recorder_.record(event);
}

// A cluster must survive one node that forgets, unless another one may be promoted that lacks
// changes.
bool Nemesis::store_forgets(const Strike& strike) const {
  const std::string& kind = spec(strike).kind;
  const bool stops = kind == "server-pause" || kind == "restart" || kind == "isolate";
  if (scenario_.topology->promotes && stops) return true;
  const bool whole = nodes_of(scenario_) == 1 || spec(strike).target == "all";
  return kind == "restart-empty" && (whole || scenario_.topology->promotes);
}

void Nemesis::begin_forgetting(const Strike& strike) {
  if (store_forgets(strike) && forgetting_++ == 0) mark_incarnation(strike, Phase::kInvoke);
}

void Nemesis::end_forgetting(const Strike& strike) {
  if (!store_forgets(strike)) return;
  // Only then the promotion that the fault has caused is over.
  if (scenario_.topology->promotes) rig_.await_ready();
  if (--forgetting_ == 0) mark_incarnation(strike, Phase::kReturn);
}

void Nemesis::mark_incarnation(const Strike& strike, Phase phase) {
  Event event;
  event.kind = Kind::kIncarnation;
  event.phase = phase;
  event.target = server_target(scenario_, strike.node);
  recorder_.record(event);
}

void Nemesis::begin(Active& active) {
  const Strike& strike = active.strike;
  const std::string& kind = spec(strike).kind;
  if (kind == "clock-jump") return jump_clock(strike, spec(strike).delay);
  mark(strike, Phase::kInvoke);
  if (kind == "kill") {
    const bool store_dies = scenario_.topology != nullptr && scenario_.topology->one_process;
    if (store_dies) mark_incarnation(strike, Phase::kInvoke);
    workers_.kill(strike.slot);
    if (store_dies) mark_incarnation(strike, Phase::kReturn);
  } else if (kind == "pause") {
    workers_.pause(strike.slot);
  } else if (kind == "starve") {
    starve(active);
  } else if (strike.member) {
    begin_on_member(strike);
  } else if (is_of_servers(kind)) {
    begin_on_server(active);
  } else {
    begin_on_network(active);
  }
}

void Nemesis::heal(Active& active) {
  const Strike& strike = active.strike;
  const std::string& kind = spec(strike).kind;
  if (kind == "clock-jump") return jump_clock(strike, 0ms);
  if (kind == "kill") {
    workers_.start(strike.slot);
  } else if (kind == "pause") {
    workers_.resume(strike.slot);
  } else if (kind == "starve") {
    active.spinners.clear();
    for (std::int64_t slot = 1; slot <= scenario_.clients.processes; ++slot) {
      give_way(workers_.pid(static_cast<std::uint32_t>(slot)), false);
    }
  } else if (strike.member) {
    heal_member(strike);
  } else if (is_of_servers(kind)) {
    heal_server(active);
  } else {
    heal_network(active);
  }
  mark(strike, Phase::kReturn);
}

std::vector<Nemesis::Way> Nemesis::ways_of(const Strike& strike) const {
  const auto clients = static_cast<std::uint32_t>(scenario_.clients.processes);
  const auto nodes = static_cast<std::uint32_t>(nodes_of(scenario_));
  std::vector<Way> ways;
  if (strike.slot == 0) {
    for (std::uint32_t slot = 1; slot <= clients; ++slot) ways.push_back({slot, strike.node});
  } else if (spec(strike).from == "one") {
    ways.push_back({strike.slot, strike.node});
  } else {
    for (std::uint32_t node = 1; node <= nodes; ++node) ways.push_back({strike.slot, node});
  }
  return ways;
}

std::vector<support::FaultProxy*> Nemesis::links_of(const Strike& strike) const {
  std::vector<support::FaultProxy*> found;
  for (const Way& way : ways_of(strike)) {
    found.push_back(rig_.links(way.slot).at(way.node - 1).get());
  }
  return found;
}

void Nemesis::begin_on_network(Active& active) {
  if (scenario_.store.proxy) return begin_on_link(active);
  for (const Way& way : ways_of(active.strike)) rig_.cut_client(way.slot, way.node);
}

void Nemesis::heal_network(const Active& active) {
  const Strike& strike = active.strike;
  if (!scenario_.store.proxy) {
    for (const Way& way : ways_of(strike)) rig_.heal_client(way.slot, way.node);
    return;
  }
  for (const auto& [link, fault] : active.proxy_faults) link->remove(fault);
  // A connection that has lost bytes stays silent, because TCP never continues after a gap.
  const std::string& kind = spec(strike).kind;
  if (kind == "blackhole" || kind == "drop-replies") {
    for (support::FaultProxy* link : links_of(strike)) link->reset_all();
  }
}

void Nemesis::begin_on_link(Active& active) {
  const NemesisSpec& what = spec(active.strike);
  const auto add = [&](const Fault& fault) {
    for (support::FaultProxy* link : links_of(active.strike)) {
      active.proxy_faults.emplace_back(link, link->add(fault));
    }
  };
  const auto both = [&](Fault fault) {
    fault.direction = Direction::kToServer;
    if (what.direction != "to-client") add(fault);
    fault.direction = Direction::kToClient;
    if (what.direction != "to-server") add(fault);
  };
  const auto delay = std::chrono::microseconds(what.delay);
  if (what.kind == "partition") {
    both({.kind = Fault::Kind::kHold});
  } else if (what.kind == "blackhole") {
    both({.kind = Fault::Kind::kBlackhole});
  } else if (what.kind == "delay") {
    both({.kind = Fault::Kind::kDelay, .delay = delay});
  } else if (what.kind == "loss") {
    // A lost packet arrives after the retransmission timeout, together with all later ones.
    both({.kind = Fault::Kind::kDelay, .times = 3, .delay = delay});
  } else if (what.kind == "hold") {
    // The client's requests stay on their way, and the client continues over new connections.
    add({.kind = Fault::Kind::kHold, .times = 1});
    add({.kind = Fault::Kind::kHold, .direction = Direction::kToClient, .times = 1});
  } else if (what.kind == "reorder") {
    add({.kind = Fault::Kind::kHold, .times = 1});
  } else if (what.kind == "duplicate") {
    add({.kind = Fault::Kind::kDuplicate});
  } else if (what.kind == "drop-replies") {
    add({.kind = Fault::Kind::kDropReplies});
  } else if (what.kind == "split") {
    both({.kind = Fault::Kind::kSplit, .delay = std::chrono::microseconds(30)});
  } else if (what.kind == "reset") {
    add({.kind = Fault::Kind::kReset,
         .direction = Direction::kToClient,
         .times = 2,
         .after_bytes = 3});
  }
}

void Nemesis::begin_on_server(Active& active) {
  const Strike& strike = active.strike;
  const std::string& kind = spec(strike).kind;
  begin_forgetting(strike);
  if (kind == "server-pause") {
    rig_.pause_server(strike.node);
  } else if (kind == "restart") {
    rig_.stop_server(strike.node, /*with_memory=*/true);
  } else if (kind == "restart-empty") {
    rig_.stop_server(strike.node, /*with_memory=*/false);
  } else if (kind == "failover") {
    rig_.cut_replication();
  } else if (kind == "disk-full") {
    rig_.fill();
  } else if (kind == "isolate") {
    const bool from_all = spec(strike).from == "all";
    from_all ? rig_.cut_off(strike.node) : rig_.cut_off_from_next(strike.node);
  } else if (kind == "move") {
    rig_.begin_move(strike.node);
  }
}

void Nemesis::heal_server(Active& active) {
  const Strike& strike = active.strike;
  const std::string& kind = spec(strike).kind;
  if (kind == "server-pause") {
    rig_.resume_server(strike.node);
  } else if (kind == "restart") {
    rig_.start_server(strike.node, /*with_memory=*/true);
  } else if (kind == "restart-empty") {
    rig_.start_server(strike.node, /*with_memory=*/false);
  } else if (kind == "failover") {
    mark_incarnation(strike, Phase::kInvoke);
    rig_.fail_over();
    mark_incarnation(strike, Phase::kReturn);
  } else if (kind == "disk-full") {
    rig_.make_room();
  } else if (kind == "isolate") {
    spec(strike).from == "all" ? rig_.rejoin(strike.node) : rig_.rejoin_next(strike.node);
  } else if (kind == "move") {
    rig_.end_move(strike.node);
  }
  end_forgetting(strike);
}

void Nemesis::begin_on_member(const Strike& strike) {
  const std::string& kind = spec(strike).kind;
  if (kind == "server-pause") {
    rig_.pause_member(strike.node);
  } else if (kind == "restart") {
    rig_.kill_member(strike.node);
  } else if (kind == "isolate") {
    rig_.cut_off_member(strike.node);
  } else if (kind == "partition") {
    rig_.cut_member_from_servers(strike.node);
  }
}

void Nemesis::heal_member(const Strike& strike) {
  const std::string& kind = spec(strike).kind;
  if (kind == "server-pause") {
    rig_.resume_member(strike.node);
  } else if (kind == "restart") {
    rig_.start_member(strike.node);
  } else if (kind == "isolate") {
    rig_.rejoin_member(strike.node);
  } else if (kind == "partition") {
    rig_.rejoin_member_to_servers(strike.node);
  }
}

// The clients get the lowest priority, and other processes use all CPUs.
void Nemesis::starve(Active& active) {
  const auto span = std::min<milliseconds>(active.strike.lasts, kMostSpinning);
  for (std::int64_t slot = 1; slot <= scenario_.clients.processes; ++slot) {
    give_way(workers_.pid(static_cast<std::uint32_t>(slot)), true);
  }
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    active.spinners.push_back(std::make_unique<support::ChildProcess>(
        support::Command{.arguments = {program_, "spin", std::to_string(span.count())},
                         .environment = {},
                         .output = {}}));
  }
}

// The jump happens between the two marks. Each mark ends the sure part of a lease.
void Nemesis::jump_clock(const Strike& strike, milliseconds shift) {
  mark(strike, Phase::kInvoke);
  rig_.clock()->set(shift);
  mark(strike, Phase::kReturn);
}

}  // namespace holdfast::lab
