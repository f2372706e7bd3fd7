// One lock server on the shared journal: the true shard, fold, compactor and EtcdJournal. In
// place of the loop and the thread of src/server/service.cc it has tasks of a process, which may
// stand still or die between any two of them.
//
// Thread-safety: none (fiber.h).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "src/server/compactor.h"
#include "src/server/shard.h"
#include "src/stores/etcd/journal/seen_revisions.h"
#include "tests/cluster/crowd.h"
#include "tests/cluster/fiber.h"

namespace holdfast::testing::cluster {

class SimServer final : private server::ServiceListener {
 public:
  // `address`: empty for one of its own.
  SimServer(simulation::World& world, std::uint64_t number, Crowd& crowd, std::string address);
  ~SimServer() override = default;

  Process& process() { return process_; }
  const std::string& address() const { return address_; }
  void receive(std::uint64_t which, const Crowd::Message& message);
  // SIGTERM; it begins anew a while later.
  void stop();
  // The world ends: whatever waits comes to an end.
  void finish();

  // Nobody leads: nullptr.
  const server::Shard* shard() const { return shard_.get(); }

 private:
  // --- The loop.
  void tick();
  void use();
  void flush();
  void look_at_lead();
  void take_result(server::Commit done);
  void on_push(const server::ClientName&, const port::Push& push) override { crowd_.on_push(push); }
  void on_effect(server::Position, const machine::Effect&, machine::Instant) override {}
  void on_stopped(const Error&) override {}

  // --- The journal's thread.
  void run();
  void serve_a_term();
  bool lead();
  bool start();
  void work();
  void report(server::Commit done);
  void close();
  server::Commit commit(server::Shard::Outbound batch, bool may_wait);
  template <typename F>
  void wait(Nanos most, F&& over);
  void wake();

  machine::Instant boot_now() const;
  bool over() const { return world_.closing; }

  simulation::World& world_;
  Process process_;
  const std::string address_;
  Crowd& crowd_;
  // A process has its own, which outlives its terms.
  const std::shared_ptr<stores::etcd::SeenRevisions> seen_ =
      std::make_shared<stores::etcd::SeenRevisions>();
  Fiber fiber_;
  std::unique_ptr<port::Journal> journal_;
  std::optional<server::Compactor> compactor_;
  std::unique_ptr<server::Shard> shard_;
  std::optional<server::Shard::Outbound> outbound_;  // To the journal's thread.
  std::optional<base::BootInstant> handed_over_;
  base::BootInstant next_confirm_{};
  base::BootInstant next_look_{};
  std::uint64_t terms_ = 0;
  bool flush_posted_ = false;
  bool reported_ = false;  // The journal's thread waits until the loop has heard.
  bool failed_ = false;
  bool stopping_ = false;
};

}  // namespace holdfast::testing::cluster
