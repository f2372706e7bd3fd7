// One shard of a lock service on one of its servers: leads it with its journal, or stands by, in
// turns, until it is stopped.
//
//   stands by ── lead() ── recovers ── leads ── lost, or handed over ── stands by
//
// With one shard it tries to lead at all times. With several the server's plan (sharing.h) says
// when, because the servers share them.
//
// Guarantee: one Service at a time. Recovery and the end of a journal wait on a thread of the
// shard, so they do not hold up the loop, on which the other shards answer their clients.
// Not guaranteed: that a shard whose journal is damaged is tried again before the server is
// started anew.
//
// Thread-safety: any thread, but start() and stop(), which belong to one. The owner is called on
// the loop, or where a comment says so. Ownership: loop and owner outlive it. Time: boot time.
// Blocking: start() and stop().
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "holdfast/result.h"
#include "holdfast/server.h"
#include "src/port/service/shards.h"
#include "src/server/journal/journal.h"
#include "src/server/service.h"

namespace asio {
class io_context;
}

namespace holdfast::server {

class ShardOwner {
 public:
  // From now on that service has the shard; from stand_by() on it is gone.
  virtual void serve(std::uint32_t shard, Service& service) = 0;
  virtual void stand_by(std::uint32_t shard, const std::string& leader) = 0;
  virtual void on_push(std::uint32_t shard, const ClientName& client, const port::Push& push) = 0;
  virtual void on_effect(std::uint32_t shard, const machine::Effect& effect,
                         machine::Instant at) = 0;
  // Its service has ended by itself. stand_by() follows where the journal is shared.
  virtual void on_term_end(std::uint32_t shard, const Error& reason) = 0;

  // --- On any thread.
  virtual void warn(const std::string& what) = 0;
  // It leads, or stands by, from now on. It is not called within start().
  virtual void on_change(std::uint32_t shard) = 0;
  // The shard's journal cannot be served.
  virtual void on_failure(std::uint32_t shard, const Error& reason) = 0;

 protected:
  ~ShardOwner() = default;
};

struct ServedShardOptions {
  std::string journal;  // Its URL.
  port::ShardNumber shard{};
  std::string address;  // This server's, as it tells it.
  bool shared = false;
  ServiceOptions service{};
};

class ServedShard {
 public:
  ServedShard(asio::io_context& io, ShardOwner& owner, ServedShardOptions options);
  ~ServedShard();

  // Where the journal is not shared, leads, before the loop runs; otherwise the loop runs already.
  // `journal` may be null where it is shared: then it stands by at first, without asking.
  Result<void> start(std::unique_ptr<Journal> journal);
  // Answers what is under way, and gives up the lead.
  void stop();

  ServerLead lead() const;
  std::string journal_id() const;
  // An operator's wish: it leaves the lead to others for a while.
  void step_down();
  // Where there are several shards: the plan.
  void try_to_lead();
  void hand_over();
  // While it does not lead: who does. False: it leads, or knew that.
  bool note_leader(const std::string& leader);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::server
