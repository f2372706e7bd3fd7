// The referee checks what must hold in every simulated run, whatever the primitives do. It sees
// what the store does, step by step, and what the programs believe.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/lease.h"
#include "holdfast/lock_info.h"
#include "holdfast/mode.h"
#include "holdfast/token.h"
#include "src/machine/types.h"
#include "tests/simulation/world.h"

namespace holdfast::simulation {

// Somebody thinks that it holds a lock.
struct Belief {
  std::string name;
  Mode mode;
  Token token;
  Nanos from{};
  Nanos to = Nanos::max();  // It ends by itself then; it may have ended before, as `end` says.
  std::uint64_t group = 0;  // Members do not exclude one another: an upgrade's two.
  const Process* process = nullptr;
  std::function<Nanos()> end{};  // The holder's deadline, by true time.

  Nanos ended() const;
};
using BeliefPtr = std::shared_ptr<Belief>;

class Referee {
 public:
  // With HOLDFAST_SIM_TRACE in the environment it says what it sees.
  explicit Referee(World& world);

  void trace(const std::string& line) const;
  // The first thing that was wrong; empty: nothing.
  const std::string& verdict() const { return verdict_; }
  void fail(std::string what);
  void check(bool good, const std::string& what) {
    if (!good) fail(what);
  }

  // --- What the store did.
  void on_event(const LockEvent& event);
  void on_extended(const std::string& name, const machine::Token& token, Nanos until);
  // Processes by their owner's name: whose waits are looked after.
  void know(const std::string& owner, Process& process) { processes_[owner] = &process; }

  // --- What the programs believe.
  // In a lease that is held now.
  BeliefPtr believe(const Process& process, const Lease& lease, Mode mode, std::uint64_t group = 0);
  BeliefPtr believe(Belief belief);
  // From now on; `held`: as the lease says at this moment.
  void doubt(const BeliefPtr& belief, bool held);
  // When the store gave the lock to this request; nullopt: it has not.
  std::optional<Nanos> granted_at(const std::string& trace) const;
  void check_beliefs();

  // By the store, now.
  bool is_held(const std::string& name, const Token& token) const;
  // Its lease ended before that.
  bool ended_before(const std::string& name, const Token& token, Nanos then) const;
  // The store knows a ticket of that request.
  bool is_known(const std::string& trace) const { return tickets_.contains(trace); }

  // Longer than that nobody waits for what it could have: a third of the longest lease here.
  static constexpr Nanos kSafetyPoll = 1900ms;

 private:
  struct Waiting {
    std::string who;  // Owner and trace.
    Process* process;
  };
  void on_granted(const LockEvent& event, const std::string& who);
  void on_ended(const LockEvent& event, const std::string& who);
  static std::string text_of(const Token& token) { return std::to_string(token.counter); }

  World& world_;
  const bool traces_;
  std::string verdict_;
  std::map<std::string, Process*> processes_;
  std::map<std::string, std::deque<Waiting>> queues_;
  std::set<std::string> unsure_;  // Queues in which two waits could not be told apart.
  std::map<std::pair<std::string, Token>, Nanos> ends_;
  std::map<std::pair<std::string, Token>, Nanos> ended_at_;
  std::map<std::string, Token> last_tokens_;
  std::map<std::string, Nanos> grants_;  // By trace.
  std::multiset<std::string> tickets_;
  std::vector<BeliefPtr> beliefs_;
};

}  // namespace holdfast::simulation
