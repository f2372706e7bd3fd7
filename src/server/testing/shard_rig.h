// A shard on a simulated disk, for tests of single facts: commits happen when the test says so.
//
// Thread-safety: none.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/server/shard.h"
#include "src/server/testing/sim_journal.h"

namespace holdfast::server::testing {

class ShardRig final : private ServiceListener {
 public:
  static constexpr machine::Duration kTtl = std::chrono::seconds(10);

  explicit ShardRig(ServiceOptions options = {}) : options_(std::move(options)) { restart(); }
  ~ShardRig() override = default;

  // The process dies, and a new one comes up: after a reboot, with an uptime of its own.
  void restart(std::uint64_t wall = 1'000) {
    shard_.reset();
    start(wall, {});
  }

  struct OldLeader {
    std::unique_ptr<Shard> shard;
    machine::Instant boot;
  };
  // Another server takes over while this one is paused. The old one commits nothing any more.
  OldLeader take_over(machine::Duration old_leader) {
    OldLeader old{std::move(shard_), boot};
    start(1'000, old_leader);
    return old;
  }

  // SIGTERM: everything is committed, and the leases as they are.
  void stop() {
    commit();
    while ((outbound_ = shard_->take_closing_batch(boot))) finish();
  }
  // For the next restart().
  machine::Duration quiet{};

  Shard& shard() { return *shard_; }

  // The answer to a request; nullopt: it has not come yet.
  using Slot = std::shared_ptr<std::optional<Result<Answer>>>;
  Slot ask(machine::Action action, std::uint64_t issue = 0, std::string client = "c") {
    auto slot = std::make_shared<std::optional<Result<Answer>>>();
    shard_->submit(boot, {std::move(client), issue, std::move(action)},
                   [slot](Result<Answer> answer) { slot->emplace(std::move(answer)); });
    return slot;
  }

  machine::Acquire acquire(std::string_view name, std::uint64_t id) const {
    machine::Acquire made{name, {1, id}};
    made.ttl = made.waiter_ttl = kTtl;
    return made;
  }
  // Acquired and committed.
  machine::Reply hold(std::string_view name, std::uint64_t id, std::uint64_t issue = 0) {
    const Slot slot = ask(acquire(name, id), issue);
    commit();
    return (**slot)->reply;
  }

  void pass(machine::Duration time) {
    for (; time > machine::Duration::zero(); time -= Axis::kPulse) {
      boot += std::min(time, Axis::kPulse);
      shard_->tick(boot);
    }
  }

  // One batch, if there is one.
  bool begin() {
    outbound_ = shard_->take_batch();
    return outbound_.has_value();
  }
  void finish() {
    if (!outbound_->bytes.empty()) {
      outbound_->add_checksum();
      static_cast<void>(journal_->commit(outbound_->number, outbound_->bytes));
    }
    shard_->committed();
  }
  void commit() {
    while (begin()) finish();
  }

  SimDisk disk;
  machine::Instant boot{};
  std::vector<port::Push> pushes;
  std::vector<machine::EffectKind> told;

 private:
  void start(std::uint64_t wall, machine::Duration old_leader) {
    pushes.clear();
    boot = machine::Instant(std::chrono::seconds(7 * ++starts_));
    journal_ = std::make_unique<SimJournal>(disk);
    static_cast<void>(journal_->open());
    auto recovered = recover(*journal_, {}, wall, old_leader);
    shard_ = std::make_unique<Shard>(*std::move(recovered), boot,
                                     static_cast<ServiceListener&>(*this), options_, quiet);
    commit();
  }

  void on_push(const ClientName&, const port::Push& push) override { pushes.push_back(push); }
  void on_effect(Position, const machine::Effect& effect, machine::Instant) override {
    told.push_back(effect.kind);
  }
  void on_stopped(const Error&) override {}

  const ServiceOptions options_;
  std::unique_ptr<SimJournal> journal_;
  std::unique_ptr<Shard> shard_;
  std::optional<Shard::Outbound> outbound_;
  int starts_ = 0;
};

}  // namespace holdfast::server::testing
