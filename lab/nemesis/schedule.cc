#include "lab/nemesis/schedule.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <utility>

#include "src/machine/testing/dice.h"

#include "lab/scenario/topology.h"

namespace holdfast::lab {
namespace {

using Dice = machine::testing::Dice;

bool hits_server(const std::string& kind) {
  return kind == "server-pause" || kind == "restart" || kind == "restart-empty" ||
         kind == "failover" || kind == "clock-jump" || kind == "disk-full" || kind == "starve" ||
         kind == "isolate" || kind == "move";
}

bool hits_node(const std::string& kind) {
  return kind == "server-pause" || kind == "restart" || kind == "restart-empty" ||
         kind == "isolate" || kind == "move";
}

// The targets of a strike.
struct Aim {
  std::uint32_t slot = 0;
  std::uint32_t node = 1;
  bool member = false;
};

// Strikes with the same key exclude each other. A strike on a client is recorded without the node.
std::string key_of(const std::string& kind, const Aim& aim) {
  const bool process = kind == "kill" || kind == "pause";
  const bool server = hits_server(kind) && kind != "starve" && kind != "clock-jump";
  return (process  ? "process "
          : server ? "server "
                   : kind + " ") +
         std::to_string(aim.slot) + " " + std::to_string(aim.slot > 0 ? 0 : aim.node);
}

// `text` as a number from 1 to `most`; 0 if it is none.
std::uint32_t number_in(const std::string& text, std::uint32_t most) {
  std::uint32_t number = 0;
  const char* end = text.data() + text.size();
  const bool whole = std::from_chars(text.data(), end, number).ptr == end;
  return whole && number <= most ? number : 0;
}

// The run decides which node has this role.
std::optional<Aim> role_named(const std::string& target) {
  constexpr std::string_view kOfMembers = "member-";
  const bool member = target.starts_with(kOfMembers);
  const std::string role = member ? target.substr(kOfMembers.size()) : target;
  if (role == "leader") return Aim{.node = kLeader, .member = member};
  if (role == "follower") return Aim{.node = kFollower, .member = member};
  return std::nullopt;
}

// The occupied times of one target. Nemeses are planned in the order of the file, so a later one
// fits into the gaps of the earlier ones.
class Taken {
 public:
  // The first gap of that length, from `from` on and after at most `most` strikes.
  std::optional<milliseconds> room(milliseconds from, milliseconds lasts, int most) const {
    for (auto next = until_.upper_bound(from); next != until_.end(); ++next, --most) {
      if (next->second >= from + lasts + kApart) break;
      if (most == 0) return std::nullopt;
      from = next->first;
    }
    return from;
  }
  void take(milliseconds from, milliseconds lasts) { until_[from + lasts + kApart] = from; }

 private:
  static constexpr milliseconds kApart{50};  // Gives a target that is back the time to act.

  std::map<milliseconds, milliseconds> until_;  // Ends and beginnings of disjoint strikes.
};

class Planner {
 public:
  explicit Planner(const Scenario& scenario) : scenario_(scenario) {}

  std::vector<Strike> plan() {
    for (std::size_t i = 0; i < scenario_.nemeses.size(); ++i) {
      if (scenario_.nemeses[i].at.empty()) plan(i);
    }
    std::stable_sort(strikes_.begin(), strikes_.end(),
                     [](const Strike& a, const Strike& b) { return a.at < b.at; });
    return std::move(strikes_);
  }

 private:
  void plan(std::size_t index) {
    const NemesisSpec& spec = scenario_.nemeses[index];
    Dice dice(scenario_.seed * 31 + index + 1);
    const milliseconds end = scenario_.duration - scenario_.calm;
    const std::int64_t most = spec.kind == "failover" ? 1 : spec.times;  // One replica.
    std::int64_t done = 0;
    for (milliseconds at = spec.first; at < end; at += around(spec.every, dice)) {
      if (most != 0 && done >= most) return;
      const milliseconds lasts = around(spec.lasts, dice);
      if (at + lasts > end) continue;
      for (const Aim& aim : aims(spec, dice)) {
        Taken& taken = busy_[key_of(spec.kind, aim)];
        // Only the first strike of each nemesis waits for a gap. If more did, no gaps would be
        // left.
        const auto from = taken.room(at, lasts, done > 0 ? 0 : 100);
        if (!from || *from + lasts > end) continue;
        taken.take(*from, lasts);
        strikes_.push_back({*from, lasts, index, aim.slot, aim.node, aim.member});
        ++done;
      }
    }
  }

  static milliseconds around(milliseconds usual, Dice& dice) {
    const auto half = static_cast<std::uint64_t>(usual.count() / 2);
    return usual * 3 / 4 + milliseconds(static_cast<std::int64_t>(dice.below(half + 1)));
  }

  std::vector<Aim> aims(const NemesisSpec& spec, Dice& dice) const {
    constexpr std::string_view kNode = "node ";
    const auto any_node = [&] {
      return 1 + static_cast<std::uint32_t>(
                     dice.below(static_cast<std::uint64_t>(nodes_of(scenario_))));
    };
    if (spec.target.starts_with(kNode)) {
      // The links of all clients to it.
      const auto nodes = static_cast<std::uint32_t>(nodes_of(scenario_));
      const std::uint32_t node = number_in(spec.target.substr(kNode.size()), nodes);
      return {{.slot = 0, .node = node > 0 ? node : any_node()}};
    }
    const bool server = hits_server(spec.kind);
    const std::optional<Aim> role = role_named(spec.target);
    if (!server && role) return {*role};
    // With a single target there is nothing to choose.
    if (server && !(hits_node(spec.kind) && nodes_of(scenario_) > 1)) return {{}};
    const auto most =
        static_cast<std::uint32_t>(server ? nodes_of(scenario_) : scenario_.clients.processes);
    const auto aim = [&](std::uint32_t number) {
      if (server) return Aim{.slot = 0, .node = number};
      return Aim{.slot = number, .node = spec.from == "one" ? any_node() : 1};
    };
    if (role) return {*role};
    if (spec.target == "all") {
      std::vector<Aim> all;
      for (std::uint32_t number = 1; number <= most; ++number) all.push_back(aim(number));
      return all;
    }
    const std::uint32_t one = number_in(spec.target, most);
    return {aim(one > 0 ? one : 1 + static_cast<std::uint32_t>(dice.below(most)))};
  }

  const Scenario& scenario_;
  std::map<std::string, Taken> busy_;
  std::vector<Strike> strikes_;
};

}  // namespace

bool exclude(const Scenario& scenario, const Strike& one, const Strike& other) {
  return key_of(scenario.nemeses[one.nemesis].kind, {one.slot, one.node}) ==
         key_of(scenario.nemeses[other.nemesis].kind, {other.slot, other.node});
}

std::vector<Strike> schedule(const Scenario& scenario) { return Planner(scenario).plan(); }

std::optional<std::string> never_strikes(const Scenario& scenario) {
  for (const NemesisSpec& spec : scenario.nemeses) {
    if (!spec.at.empty()) continue;  // Only the run shows which points the subject passes.
    Scenario alone = scenario;
    alone.nemeses = {spec};
    if (!schedule(alone).empty()) continue;
    return "the nemesis " + spec.kind +
           " can never strike: first, and after it lasts, do not fit into duration less calm, " +
           std::to_string((scenario.duration - scenario.calm).count()) + " ms";
  }
  return std::nullopt;
}

}  // namespace holdfast::lab
