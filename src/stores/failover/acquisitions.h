// The acquisitions of one client of a chain, each in the epoch in which it was made.
//
//   Entry      entered by                       left by
//   kParked    a wait while no store is usable  a usable store: gone, so that the session asks anew
//   kAsking    a request to the active store    its answer, and the look at the stamp
//   kThere     the store knows it               release, loss
//   (none)     another epoch, release, loss     -
//
// Guarantee: "held" is said only while the authority lease of its epoch lasts, with a lease that
// ends no later; after the store's stamp was read behind the creation of the queue entry. The
// authority lease alone would not do: a store can lose its memory at any moment, and then grants
// again what its last holder still believes in.
// Thread-safety: the loop only, but renew() and the *_here() calls, which any thread may make.
// Ownership: the keeper outlives it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/local_mutex.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/rows/ended_ids.h"
#include "src/stores/failover/keeper.h"

namespace holdfast::stores::failover {

Error closed_error();

// A lock's name in an epoch, and back; nullopt: a lock of another epoch, or none of ours.
std::string stored_name(const std::string& name, std::uint32_t epoch);
std::optional<std::string> shown_name(const std::string& stored, std::uint32_t epoch);

class Acquisitions : public std::enable_shared_from_this<Acquisitions> {
 public:
  using State = port::AcquisitionState;
  using States = std::vector<Result<State>>;

  Acquisitions(const port::StoreContext& context, Keeper& keeper, port::Duration shortest);

  void acquire(port::AcquireRequest request, port::Done<State> done);
  // On the calling thread, where the active store can answer there; nullopt: nothing was done.
  std::optional<Result<State>> acquire_here(const port::AcquireRequest& request)
      HOLDFAST_EXCLUDES(mutex_);
  std::optional<Result<port::EndStatus>> release_here(const port::AcquisitionRequest& request)
      HOLDFAST_EXCLUDES(mutex_);
  void end(const port::AcquisitionRequest& request, bool release, port::Done<port::EndStatus> done);
  void downgrade(const port::AcquisitionRequest& request, port::Done<State> done);
  void resize(const port::AcquisitionRequest& request, std::uint32_t capacity,
              port::Done<bool> done);
  // On the renewal thread.
  void renew(std::vector<port::RenewItem> items, base::BootInstant deadline,
             port::Done<States> done) HOLDFAST_EXCLUDES(mutex_);
  // A store's push.
  void on_push(std::uint32_t place, const port::Push& push);
  // Another store may be used, or none.
  void on_changed();
  void close();
  bool closed() const { return closed_; }

 private:
  enum class Phase : std::uint8_t { kParked, kAsking, kThere };
  struct Entry {
    port::AcquireRequest request;
    Keeper::Use use{};
    std::atomic<Phase> phase = Phase::kAsking;
    std::atomic<bool> checked = false;
  };
  using EntryPtr = std::shared_ptr<Entry>;
  // The store has answered, and its stamp is to be read.
  struct Check {
    EntryPtr entry;
    State state;
    port::Done<State> done;
  };
  enum class Added : std::uint8_t { kNew, kKnown, kEnded };

  std::optional<Error> refuse(const port::AcquireRequest& request) const;
  EntryPtr find(const std::string& name, port::AcquisitionId id) const HOLDFAST_EXCLUDES(mutex_);
  Added add(const EntryPtr& entry) HOLDFAST_EXCLUDES(mutex_);
  bool current(const Entry& entry) const;
  Result<State> parked(const EntryPtr& entry, const Error& why);
  void send(const EntryPtr& entry, port::Done<State> done);
  // `stamp`: as it was read in the same request; null: it was not.
  void on_answer(const EntryPtr& entry, const Result<State>& answer, const std::string* stamp,
                 const port::Done<State>& done);
  bool settled(const EntryPtr& entry, const Result<State>& answer);
  void read_stamp();
  void on_stamp(const Check& check, const Result<std::string>& stamp);
  Result<State> compared(const EntryPtr& entry, const State& state,
                         const Result<std::string>& stamp);
  Result<State> delivered(const EntryPtr& entry, const State& state);
  void give_back(const EntryPtr& entry);
  Result<State> limited(const Entry& entry, State state) const;
  Result<State> renewed(const port::RenewItem& item, const EntryPtr& entry,
                        const Result<State>& answer);
  void drop(const EntryPtr& entry) HOLDFAST_EXCLUDES(mutex_);

  port::Loop* const loop_;
  port::Listener* const listener_;
  Keeper& keeper_;
  const port::Duration shortest_;
  std::atomic<bool> closed_ = false;
  std::vector<Check> unchecked_;  // The next read of the stamp is for them.
  bool reading_ = false;
  int asking_ = 0;  // Requests under way at the store.

  mutable base::LocalMutex mutex_;
  rows::EndedIds ended_ HOLDFAST_GUARDED_BY(mutex_){8192};
  std::map<port::AcquisitionId, EntryPtr> entries_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::stores::failover
