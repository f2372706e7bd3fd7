// The clients of the simulated lock servers, and what they must never see.
//
// Checked whenever a client learns something:
//   - no two clients count on incompatible leases, each by the deadline that it counts from the
//     send of the request which the answer names;
//   - a told token is above all that were told before, and is given once;
//   - a told grant is in the journal;
//   - the newest leader lets no lease end before the client that counts on it does.
// When a term begins, every client that counted on a lease has it, for at least as long. A request
// that was refused as "not applied" is not in the journal, and does not come into it. A snapshot
// whose head is written has all its chunks.
//
// Clients do not compare terms, and requests reach any server at any time: that is worse than what
// the wire allows.
//
// Time: true time, less the one percent that clocks may differ by.
// Thread-safety: none (fiber.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/server/shard.h"
#include "src/server/testing/sim_asking.h"
#include "tests/cluster/sim_etcd.h"

namespace holdfast::testing::cluster {

class Crowd {
 public:
  using Kind = server::testing::AskKind;
  using Message = server::testing::Message;
  // Takes a message to one of the servers: `which` stands for any.
  using Send = std::function<void(std::uint64_t which, const Message& message)>;

  Crowd(simulation::World& world, SimEtcd& etcd, Send send);

  void begin(std::size_t clients);
  // The clients go without a word.
  void leave();
  // Another one comes when all else has gone.
  void come_last();
  bool last_holds() const { return last_ != kNobody && acquisitions_[last_].believed; }

  bool somebody_counts_on_a_lease() const;
  // For seconds to come, while it asks one server only and lengthens no lease: a longer one would
  // hide a take-over that comes too early.
  bool somebody_depends_on_one_server() const;
  // A server of that name takes the lead.
  std::function<void(const std::string& server)> on_lead;
  // A batch with a new ticket is written.
  std::function<void()> on_entry;
  // The record of an orderly end is written.
  std::function<void()> on_closing;

  // --- For the servers.
  // A message has reached a server that leads, as far as it knows.
  void submit(server::Shard& shard, machine::Instant boot, std::uint64_t which,
              const Message& message);
  void on_push(const port::Push& push);
  // The first record of a term is committed. `recovered`: the true time at which it was read.
  void check_start(const server::Shard& shard, const std::string& term, Nanos recovered);
  // The shard goes.
  void forget(const server::Shard* shard);

  const std::string& failure() const { return failure_; }
  void fail(const std::string& what);

  struct Tally {
    std::uint64_t told = 0;     // Grants.
    std::uint64_t renewed = 0;  // Leases that somebody counts on.
    std::uint64_t terms = 0;
    std::uint64_t inherited = 0;  // Leases that somebody counts on when a term begins.
    std::uint64_t parts = 0;
    std::uint64_t snapshots = 0;
    std::uint64_t unknown = 0;  // Outcomes.
    std::uint64_t refused = 0;
  };
  Tally tally;

 private:
  static constexpr std::size_t kNobody = SIZE_MAX;
  // A shard was given so many before the journal had what they do.
  struct Requests {
    int asked = 0;
    int refused = 0;  // The shard said that it did not apply them.

    bool none_applied() const { return asked > 0 && refused == asked; }
  };
  struct Acquisition {
    machine::AcquisitionId id{};
    std::string client;
    std::string name;
    std::uint64_t issue = 0;
    machine::Mode mode{};
    machine::Duration ttl{};
    machine::Duration waiter_ttl{};
    std::vector<Nanos> sent{};  // By the number of the request.
    // It reaches this server only, whether that leads or not.
    std::optional<std::uint64_t> server{};
    bool loyal = false;      // The first server that answers becomes that one.
    bool stays = false;      // It holds for long.
    bool lengthens = false;  // Some of its renewals are longer than its first lease.
    machine::Token token{};
    Nanos believed_until{};
    bool believed = false;
    bool closed = false;  // Counts on nothing more.
    bool answered = false;
    int farewells = 0;
    Requests enters{};  // Acquires.
    Requests leaves{};  // Releases and cancellations.
    bool left = false;  // The journal has one of these.
  };
  using Recorded = server::testing::Recorded;
  using News = server::testing::News;
  struct Believer {
    std::size_t acquisition = 0;
    Nanos until{};
  };

  std::size_t add(const std::string& name, const std::string& client);
  void take_turn(std::size_t at);
  void speak(std::size_t at);
  void say_goodbye(std::size_t at);
  void send(const Message& message);
  void answer(const Message& message, const server::Answer& answer);
  Acquisition* find(const machine::AcquisitionId& id);
  void check_refused(const Acquisition& one);
  void check_newest(const Acquisition& one);
  static std::optional<Nanos> left_of(const server::Shard& shard, const Acquisition& one);
  void check_told(const Acquisition& one, const machine::Reply& reply);
  void tell(const News& news);
  void learn(const News& news);
  void judge_token(const Acquisition& one);
  void check_exclusion(std::size_t at);
  bool believes(const Acquisition& one) const;
  void note_put(const std::string& key, const std::string& value);
  void note_head(const std::string& text);
  void note_batch(const std::string& bytes);

  simulation::World& world_;
  SimEtcd& etcd_;
  const Send send_;
  std::vector<Acquisition> acquisitions_;
  std::map<std::string, std::uint64_t> issues_;
  std::map<std::string, machine::Token> highest_;            // Told.
  std::map<std::string, machine::Token> highest_exclusive_;  // Told.
  std::map<std::pair<std::string, machine::Token>, machine::AcquisitionId> tokens_;
  std::map<machine::AcquisitionId, Recorded> recorded_;
  // Clients that counted on a lease when that term's leader key was made.
  std::map<std::string, std::vector<Believer>> believers_;
  const server::Shard* newest_ = nullptr;  // The leader of the newest term.
  std::uint64_t newest_term_ = 0;
  std::uint64_t next_id_ = 1;
  std::size_t last_ = kNobody;
  bool gone_ = false;
  std::string failure_;
};

}  // namespace holdfast::testing::cluster
