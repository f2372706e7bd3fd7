// A shard, its journal and its clients in one deterministic world, all drawn from one seed. The
// journal is late, full, lost, or keeps a batch whose answer it lost; the server dies or ends
// in order between any two steps and comes back with another boot time; it stands still; messages
// are late, lost and doubled.
//
// Checked after each step:
//   - no two clients count on incompatible leases, each by the deadline that it counts from the
//     send of the request which the answer names;
//   - whatever is told is in the journal at that moment (but for rules 33 and 37);
//   - tokens grow from holder to holder and are given once;
//   - after a restart, a client that counts on a lease has it, with its token, for at least as
//     long;
//   - the first renewal after a crash is answered with its own number (rule 41);
//   - no lease ends in the instant in which a stall ends (rule 53);
//   - an acquisition whose release was answered and that is gone never comes back;
//   - each change of a kept text replaces the one that it names, an answered one is never lost, and
//     a read tells no older one;
//   - when all is committed, the journal folds to the machine's own state;
//   - when the clients have gone, nothing stays held.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/machine/testing/dice.h"
#include "src/server/compactor.h"
#include "src/server/shard.h"
#include "src/server/testing/sim_asking.h"
#include "src/server/testing/sim_journal.h"

namespace holdfast::server::testing {

class World final : private ServiceListener {
 public:
  explicit World(std::uint64_t seed);
  ~World() override = default;

  // Empty if all went well, otherwise what went wrong at which step.
  std::string run(int steps);

 private:
  using Kind = AskKind;
  struct Acquisition {
    machine::AcquisitionId id{};
    std::string client;
    std::string name;
    std::uint64_t issue = 0;
    machine::Mode mode{};
    machine::Duration ttl{};
    machine::Duration waiter_ttl{};
    std::vector<machine::Instant> sent{};  // By the number of the request.
    machine::Token token{};
    machine::Instant believed_until{};
    bool believed = false;
    bool closed = false;  // Counts on nothing more, and renews no more.
    bool end_answered = false;
    bool gone = false;
  };

  void on_push(const ClientName& client, const port::Push& push) override;
  void on_effect(Position position, const machine::Effect& effect, machine::Instant at) override;
  void on_stopped(const Error&) override {}

  void step();
  void pass_time();
  void stall();
  void speak();
  void newcomer();
  void deliver_request(const Message& message);
  void deliver_news();
  void drive_journal();
  void finish_commit();
  void start();
  void crash();
  std::optional<Shard::Outbound> take_next();
  void settle();
  void change_kept();
  void read_kept(const std::string& key);
  void note_kept(const std::string& key, const KeptText& text);
  void check_kept(const std::string& key, std::uint64_t version, const std::string& text);

  bool believes(const Acquisition& one) const;
  void check_beliefs();
  void check_told(const Acquisition& one, Kind kind, const machine::Reply& reply);
  void record();
  void check_restart();
  void check_zombies();
  void check_fold();
  const machine::TicketImage* durable(const Acquisition& one);
  void learn(const News& news);
  Acquisition* find(machine::AcquisitionId id);
  machine::Instant boot() const { return now_ + boot_offset_; }
  void fail(const std::string& what);

  machine::testing::Dice dice_;
  SimDisk disk_;
  std::unique_ptr<SimJournal> journal_;
  std::optional<Compactor> compactor_;
  std::unique_ptr<Shard> shard_;
  std::optional<Shard::Outbound> outbound_;  // Under way.
  bool durable_ = false;                     // It is on the disk, and the shard does not know.
  bool ends_ = false;                        // The server ends in order.
  // Tickets that a crash has left, until they are renewed.
  std::set<machine::AcquisitionId> inherited_;
  machine::Instant now_{std::chrono::seconds(1'000'000)};
  machine::Duration boot_offset_{};
  std::vector<Acquisition> acquisitions_;
  std::vector<Message> requests_;
  std::vector<Message> past_;
  std::vector<News> news_;
  // The highest token of clients that counted on a lease and do not any more.
  std::map<std::string, machine::Token> highest_;
  std::map<std::pair<std::string, machine::Token>, machine::AcquisitionId> tokens_;
  std::map<std::string, std::uint64_t> issues_;
  std::optional<machine::MachineImage> folded_;  // The journal at folded_at_.
  std::uint64_t folded_at_ = UINT64_MAX;
  std::map<machine::AcquisitionId, Recorded> recorded_;
  std::uint64_t recorded_until_ = 0;
  // Kept texts: those that were ever in the journal, the newest that somebody was told, and what a
  // client believes to be the newest. Their dice are their own, so that the locks' seeds stay.
  machine::testing::Dice kept_dice_;
  std::map<std::string, std::map<std::uint64_t, std::string>> kept_;
  std::map<std::string, std::uint64_t> kept_told_;
  std::map<std::string, std::uint64_t> kept_believed_;
  std::uint64_t next_text_ = 1;
  std::uint64_t next_id_ = 1;
  int step_ = 0;
  std::string failure_;
};

}  // namespace holdfast::server::testing
