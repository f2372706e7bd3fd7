// Random command sequences on the lock machine and on a store, every reply compared.
//
// The machine is the model: where the two disagree, one of them is wrong. Time is a number that
// both are told. Tokens are compared grant by grant: the store may skip numbers, but equal tokens
// of the model must be equal there, later ones later.
//
// Where leases are a session's (DifferentialTraits::session_bound) no time passes, lengths of
// leases and ends of holders are not compared, and a ticket is asked about by its own client only.
// There the grants that follow from another client's request are told a little later: each of them
// is waited for, and must come once, with its token, and to nobody else.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/machine/lock_machine.h"
#include "src/port/store.h"
#include "tests/conformance/harness.h"

namespace holdfast::testing {

// How the store differs from one machine under one clock, by design.
struct DifferentialTraits {
  // All locks live in one machine: a command about one lock lets time pass for the others too.
  bool one_machine = true;
  bool inspect_passes_time = true;
  Duration tombstone{};
  // The client's side refuses an acquire of an id whose release or cancel it has sent.
  bool client_remembers_ends = false;
  // The store refuses an acquire whose number is not above the highest that made a ticket, or was
  // ended, for that client and lock, unless the ticket is there.
  bool numbers_are_remembered = false;
  // A request for several locks that gets none lets time pass for those it looked at.
  bool looking_passes_time = true;
  // A single plain holder whose lease is over releases like one in time, if nobody came meanwhile.
  bool late_release_counts = false;
  // One renewal of many tickets is one step for all: what it tells a waiter of the next expiry may
  // be from before.
  bool renews_at_once = false;
  // Leases are those of the client's session, and its engine (src/contend) knows its tickets: what
  // it answers without the store is in Model::answer_of_client().
  bool session_bound = false;
  // It takes several locks in one step, or else refuses to.
  bool multi = true;
};

// The model: machines that are asked what the store is asked.
class Model {
 public:
  Model(DifferentialTraits traits, machine::Instant now) : traits_(traits), now_(now) {}

  void pass(Duration time) { now_ += time; }
  machine::Instant now() const { return now_; }

  Result<AcquisitionState> renew(const port::RenewItem& item);
  // `client` and `issue`: who asks, and with which number.
  Result<AcquisitionState> acquire(const port::AcquireRequest& request, std::size_t client);
  // All or none: the first that cannot be had decides.
  Result<port::Store::Grants> acquire_all(const std::vector<port::AcquireRequest>& requests,
                                          std::size_t client);
  Result<EndStatus> release(const std::string& name, AcquisitionId id, std::size_t client,
                            std::uint64_t issue);
  Result<EndStatus> cancel(const std::string& name, AcquisitionId id, std::size_t client,
                           std::uint64_t issue);
  Result<AcquisitionState> downgrade(const std::string& name, AcquisitionId id);
  Result<bool> break_lock(const std::string& name, Token token);
  Result<bool> set_value(const std::string& name, AcquisitionId id, std::string value);
  Result<bool> keep(const std::string& name, AcquisitionId id, std::uint64_t seq, Duration ttl,
                    std::optional<std::string> value);
  std::string get_value(const std::string& name);
  Result<bool> resize(const std::string& name, AcquisitionId id, std::uint32_t capacity);
  std::optional<LockInfo> inspect(const std::string& name);

  bool stands(const std::string& name, AcquisitionId id);

  // The commands since the last call did this to tickets that they did not name.
  machine::Effects take_news() { return std::exchange(news_, {}); }
  // The client has noted one of these requests, whatever its outcome.
  void note_issue(std::size_t client, std::uint64_t issue);

 private:
  std::optional<Result<AcquisitionState>> answer_of_client(const port::AcquireRequest& request,
                                                           std::size_t client);
  machine::Reply foresee(const port::AcquireRequest& request, std::size_t client);
  Result<EndStatus> end(const std::string& name, AcquisitionId id, machine::Action action,
                        std::size_t client, std::uint64_t issue);
  bool ends_late(const std::string& name, AcquisitionId id);
  machine::LockMachine& machine_of(const std::string& name);
  machine::Reply apply(const std::string& name, machine::Action action, AcquisitionId about = {});

  DifferentialTraits traits_;
  machine::Instant now_;
  std::map<std::string, machine::LockMachine> machines_;
  std::set<AcquisitionId> ended_;
  std::map<std::pair<std::string, std::size_t>, std::uint64_t> numbers_;
  std::map<std::size_t, std::uint64_t> last_issue_;
  machine::Effects news_;
};

// How often each command got each kind of answer: a test that never saw some proves little.
using Coverage = std::map<std::string, int>;
void expect_all_kinds_of_answers(const Coverage& coverage, const DifferentialTraits& traits = {});

// One run of `steps` commands. Names carry the seed, so that runs can share a store.
void run_differential(Site& site, std::vector<Client*> clients, DifferentialTraits traits,
                      machine::Instant now, std::uint64_t seed, int steps, Coverage& coverage);

// That many runs on a store whose leases are its clients' sessions, with two clients.
void compare_session_store(Site& site, std::uint64_t seeds);

// The seeds of this run: HOLDFAST_DIFF_SEED=N one, HOLDFAST_DIFF_SEEDS=N that many from 1 on.
std::vector<std::uint64_t> differential_seeds(std::uint64_t ordinary);

}  // namespace holdfast::testing
