// Renewals and heartbeats: many in one statement, on a connection of their own. A lock that
// the statement leaves to the machine becomes a step. While that connection cannot be had, because
// a limit of the server forbids a second one for instance, they go over the engine's.
//
// Thread-safety: any thread. Ownership: the engine outlives it, but is closed after it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "src/port/store.h"
#include "src/sql/engine.h"
#include "src/sql/link.h"

namespace holdfast::sql {

class Renewals {
 public:
  using States = std::vector<Result<port::AcquisitionState>>;

  Renewals(Link::Settings settings, Engine& engine);

  void start() { link_.start(); }
  void renew(std::vector<port::RenewItem> items, base::BootInstant deadline,
             port::Done<States> done);
  void close() { link_.close(); }

 private:
  struct Batch;

  using Places = std::vector<std::size_t>;  // Items of a batch.
  void send_calm(const std::shared_ptr<Batch>& batch, Places waiters);
  void send_all(const std::shared_ptr<Batch>& batch, const Places& places);
  void send(const std::shared_ptr<Batch>& batch, const Places& places);
  void send_over(Link& link, const std::shared_ptr<Batch>& batch, const Places& places);
  void try_own_link(base::BootInstant deadline);
  void take(const std::shared_ptr<Batch>& batch, const Places& places, const Rows& rows);
  void step(const std::shared_ptr<Batch>& batch, std::size_t at);

  Engine& engine_;
  std::atomic<bool> has_own_link_{true};  // False: the last attempt failed.
  Link link_;
};

}  // namespace holdfast::sql
