#include "lab/nemesis/schedule.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <utility>

#include "src/machine/testing/dice.h"

namespace holdfast::lab {
namespace {

using Dice = machine::testing::Dice;

bool hits_server(const std::string& kind) {
  return kind == "server-pause" || kind == "restart" || kind == "restart-empty" ||
         kind == "failover" || kind == "clock-jump" || kind == "disk-full" || kind == "starve";
}

// Strikes with the same key exclude each other.
std::string key_of(const std::string& kind, std::uint32_t slot) {
  const bool process = kind == "kill" || kind == "pause";
  const bool server = hits_server(kind) && kind != "starve" && kind != "clock-jump";
  return (process ? "process" : server ? "server" : kind) + " " + std::to_string(slot);
}

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
    const std::int64_t most = spec.kind == "failover" ? 1 : spec.times;  // There is one replica.
    std::int64_t done = 0;
    for (milliseconds at = spec.first; at < end; at += around(spec.every, dice)) {
      if (most != 0 && done >= most) return;
      const milliseconds lasts = around(spec.lasts, dice);
      if (at + lasts > end) continue;
      for (const std::uint32_t slot : slots(spec, dice)) {
        milliseconds& free_at = busy_[key_of(spec.kind, slot)];
        if (at < free_at) continue;
        // A little apart: what has just come back does something first.
        free_at = at + lasts + 50ms;
        strikes_.push_back({at, lasts, index, slot});
        ++done;
      }
    }
  }

  static milliseconds around(milliseconds usual, Dice& dice) {
    const auto half = static_cast<std::uint64_t>(usual.count() / 2);
    return usual * 3 / 4 + milliseconds(static_cast<std::int64_t>(dice.below(half + 1)));
  }

  std::vector<std::uint32_t> slots(const NemesisSpec& spec, Dice& dice) const {
    if (hits_server(spec.kind)) return {0};
    const auto clients = static_cast<std::uint32_t>(scenario_.clients.processes);
    if (spec.target == "all") {
      std::vector<std::uint32_t> all;
      for (std::uint32_t slot = 1; slot <= clients; ++slot) all.push_back(slot);
      return all;
    }
    std::uint32_t slot = 0;
    const char* end = spec.target.data() + spec.target.size();
    if (std::from_chars(spec.target.data(), end, slot).ptr == end && slot >= 1 && slot <= clients) {
      return {slot};
    }
    return {1 + static_cast<std::uint32_t>(dice.below(clients))};
  }

  const Scenario& scenario_;
  std::map<std::string, milliseconds> busy_;
  std::vector<Strike> strikes_;
};

}  // namespace

bool exclude(const Scenario& scenario, const Strike& one, const Strike& other) {
  return key_of(scenario.nemeses[one.nemesis].kind, one.slot) ==
         key_of(scenario.nemeses[other.nemesis].kind, other.slot);
}

std::vector<Strike> schedule(const Scenario& scenario) { return Planner(scenario).plan(); }

}  // namespace holdfast::lab
