// Performs the strikes of a schedule, heals them, and records both.
//
// Guarantee: a fault is recorded before it begins and after it has ended. When heal_all() returns,
// no fault lasts.
// Thread-safety: one thread at a time; step() may take as long as a server takes to start.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/nemesis/schedule.h"
#include "lab/recorder/recorder.h"
#include "lab/rig/rig.h"
#include "lab/runner/workers.h"

namespace holdfast::lab {

class Nemesis {
 public:
  Nemesis(const Scenario& scenario, const std::string& program, Rig& rig, Workers& workers,
          Recorder& recorder);
  ~Nemesis();

  // Performs what is due at `now`, counted from the start of the run.
  void step(milliseconds now);
  // When the next action is due; nullopt if none is left.
  std::optional<milliseconds> next() const;
  void heal_all();

  std::size_t struck() const { return struck_; }
  // How often each of Scenario::nemeses struck at a scheduled time.
  const std::vector<std::size_t>& struck_by() const { return struck_by_; }
  // "pause of client 2, partition of link of client 1", for the progress line.
  std::string active() const;

 private:
  struct Active {
    Strike strike;
    std::vector<std::pair<support::FaultProxy*, int>> proxy_faults{};
    std::vector<std::unique_ptr<support::ChildProcess>> spinners{};
  };

  const NemesisSpec& spec(const Strike& strike) const { return scenario_.nemeses[strike.nemesis]; }
  std::uint32_t target_of(const Strike& strike) const;
  void find_node(Strike& strike);
  void begin(Active& active);
  void heal(Active& active);
  struct Way {
    std::uint32_t slot;
    std::uint32_t node;
  };
  // From clients to nodes: those that a network fault affects.
  std::vector<Way> ways_of(const Strike& strike) const;
  std::vector<support::FaultProxy*> links_of(const Strike& strike) const;
  void begin_on_network(Active& active);
  void heal_network(const Active& active);
  void begin_on_member(const Strike& strike);
  void heal_member(const Strike& strike);
  void begin_on_link(Active& active);
  void begin_on_server(Active& active);
  void heal_server(Active& active);
  void starve(Active& active);
  void jump_clock(const Strike& strike, milliseconds shift);
  void mark(const Strike& strike, Phase phase);
  bool store_forgets(const Strike& strike) const;
  void mark_incarnation(const Strike& strike, Phase phase);
  // Strikes on several nodes overlap, and end together as one change of incarnation.
  void begin_forgetting(const Strike& strike);
  void end_forgetting(const Strike& strike);

  const Scenario& scenario_;
  const std::string program_;
  Rig& rig_;
  Workers& workers_;
  Recorder& recorder_;
  const std::vector<Strike> strikes_;
  std::size_t next_ = 0;
  std::size_t struck_ = 0;
  std::vector<std::size_t> struck_by_;
  std::vector<Active> active_;
  std::size_t forgetting_ = 0;  // Strikes under way that the store may forget by.
};

}  // namespace holdfast::lab
