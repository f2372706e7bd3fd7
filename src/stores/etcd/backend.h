// The contenders' operations on etcd: src/contend/backend.h describes each one.
//
// A contender is a key on the client's lease, ordered by the number of its creation. An entry is
// one transaction that also lists the folder. To notice a change, the client creates a watch and
// reads the key at the same time. If the read is older than the watch, it is repeated. (The server
// serves a watch that begins in the past only every 100 ms.)
//
// Thread-safety: the loop only, except guarantees(), close() and abandon_after_fork().
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/contend/backend.h"
#include "src/contend/batch_queue.h"
#include "src/port/registry.h"
#include "src/stores/etcd/keys.h"
#include "src/stores/etcd/per_lock_order.h"
#include "src/stores/etcd/requests.h"
#include "src/stores/etcd/store_session.h"
#include "src/stores/etcd/transport/rpc.h"
#include "src/stores/etcd/url.h"

namespace holdfast::stores::etcd {

// A subclass keeps locks in the layout of etcd's own package (?recipe=): recipe_backend.h.
class EtcdBackend : public contend::Backend {
 public:
  using BootInstant = base::BootInstant;
  using QueueEntry = contend::QueueEntry;

  // `rpc` runs on the loop of `context`: the backend handles answers where they arrive.
  EtcdBackend(EtcdAddress address, std::unique_ptr<Rpc> rpc, const port::StoreContext& context);
  ~EtcdBackend() override;

  void start(contend::Events* events) override;
  contend::SessionView session() const override { return session_->view(); }
  void ensure_session(BootInstant deadline, Done<contend::SessionView> done) override;
  void enter(std::uint64_t epoch, std::string lock, contend::Key key, contend::Details details,
             BootInstant deadline, Done<contend::Entered> done) override;
  void list(std::string lock, bool latest, contend::WakerPtr waker, BootInstant deadline,
            Done<contend::Listing> done) override;
  void list_in_full(std::string lock, BootInstant deadline, Done<contend::Listing> done) override;
  void read(std::string lock, QueueEntry place, contend::WakerPtr waker, BootInstant deadline,
            Done<std::optional<contend::Read>> done) override;
  void write(std::uint64_t epoch, std::string lock, QueueEntry place, contend::Details details,
             BootInstant deadline, Done<std::optional<contend::Read>> done) override;
  void remove(std::uint64_t epoch, std::string lock, QueueEntry place, BootInstant deadline,
              Done<bool> done) override;
  bool remembers_names() const override { return true; }
  bool keeps() const override { return true; }
  void keep(std::uint64_t epoch, contend::Keep what, BootInstant deadline,
            Done<std::optional<contend::Read>> done) override;
  void end_kept_lease(const std::string& lease) override;
  void read_record(std::string lock, BootInstant deadline,
                   Done<std::pair<contend::Record, std::uint64_t>> done) override;
  void read_value(std::string lock, BootInstant deadline, Done<contend::Value> done) override;
  void apply(contend::Change change, BootInstant deadline,
             Done<std::optional<std::uint64_t>> done) override;
  void notify(std::string session_tag, std::function<void()> then) override;
  std::string session_tag() const override { return session_->tag(); }
  void list_locks(std::string prefix, std::size_t limit, BootInstant deadline,
                  Done<contend::Locks> done) override;
  Guarantees guarantees() const override;
  void look_at_servers(BootInstant deadline, Done<contend::Servers> done) override;
  void probe(BootInstant deadline, Done<std::vector<Finding>> done) override;
  void close(BootInstant deadline) override;
  void abandon_after_fork() noexcept override;

 protected:
  // --- The keys of a lock, as this backend keeps them.

  // Empty if it is another program's entry, which a newer listing no longer had.
  virtual std::string key_of(const std::string& lock, const QueueEntry& place) const;
  virtual wire::RangeRequest folder_request(const std::string& lock, bool full) const;
  // Errors (in full only): the record cannot be read, or is of a later version.
  virtual Result<contend::Listing> listing_of(const std::string& lock,
                                              const wire::RangeResponse& range, bool full);
  virtual contend::Details details_of(const wire::KeyValue& kv, const QueueEntry& place) const;
  QueueEntry entry_of(const wire::KeyValue& kv, const contend::Key& key, bool full) const;
  static void sort_queue(contend::Listing& listing);
  // Whether one transaction may hold entries or removals of several locks.
  virtual bool joins() const { return true; }

  void post(std::function<void()> task);
  template <typename T>
  void fail(const Done<T>& done, Error why);

  const Keys keys_;

 private:
  struct Folders;
  // The watch beside a read. Without a waker nothing is watched.
  struct Watching {
    std::string key;
    std::string end;
    contend::WakerPtr waker;
    std::function<void()> wake;  // Called on the loop of Rpc.
  };

  // Wraps a completion so that it runs on the loop, unless the backend is gone by then.
  template <typename T>
  std::function<void(Result<T>)> on_loop(Done<T> done);

  void add_guard(wire::TxnRequest& txn, const StoreSession::Guard& guard) const;
  // Why a transaction's conditions failed. kWrittenSince: only the session's key was written since,
  // so the request can be repeated.
  enum class Passed { kYes, kWrittenSince, kGone };
  Passed passed(std::uint64_t epoch, const StoreSession::Guard& guard,
                const wire::RangeResponse& session_key);
  Error session_over() const;

  // After a lost answer, no request is sent before its outcome is certain. `then` is called by
  // `deadline`; successful calls keep their order.
  void when_settled(BootInstant deadline, std::function<void(const Result<void>&)> then);
  void fence();
  void tell_settled(const Result<void>& settled);
  void give_up_late();
  // Takes from an answer what it says about the session and about lost answers.
  template <typename T>
  void note(std::uint64_t epoch, const Result<T>& answer, bool may_have_written);

  // --- backend_batch.cc: entries and removals.
  struct Entry;
  struct Removal;
  using EntryPtr = std::shared_ptr<Entry>;
  using RemovalPtr = std::shared_ptr<Removal>;
  using Entries = contend::BatchQueue<EntryPtr>;
  using Removals = contend::BatchQueue<RemovalPtr>;
  void ask(const EntryPtr& entry);
  void ask(const RemovalPtr& removal);
  void send_soon();
  void send_what_may_go();
  template <typename Part>
  void send_all(contend::BatchQueue<Part>& batches, BootInstant now);
  // `joined`: a call of take(). Otherwise a single part that goes alone.
  void send(Entries::Call call, bool joined);
  void send(Removals::Call call, bool joined);
  wire::TxnRequest transaction_of(const std::vector<EntryPtr>& entries,
                                  const StoreSession::Guard& guard) const;
  contend::Entered entered_of(const Entry& entry, const wire::ResponseOp& folder);
  void on_entered(const std::vector<EntryPtr>& entries, const StoreSession::Guard& guard,
                  const Result<wire::TxnResponse>& answer);
  void on_removed(const std::vector<RemovalPtr>& removals, const Result<wire::TxnResponse>& answer);
  void remove_again(const RemovalPtr& removal, const Error& why);

  void send_write(std::uint64_t epoch, const std::string& lock, const QueueEntry& place,
                  const contend::Details& details, BootInstant deadline, int attempts,
                  Done<std::optional<contend::Read>> done);
  // --- backend_keep.cc: contenders on leases of their own.
  struct Keeping;
  void grant_lease(const std::shared_ptr<Keeping>& keeping);
  void send_keep(const std::shared_ptr<Keeping>& keeping, int attempts);
  void on_kept(const std::shared_ptr<Keeping>& keeping, int attempts,
               const StoreSession::Guard& guard, const Result<wire::TxnResponse>& answer);
  void revoke(std::int64_t lease);

  void send_apply(std::shared_ptr<contend::Change> change, BootInstant deadline, int attempts,
                  Done<std::optional<std::uint64_t>> done);
  void ask_range(wire::RangeRequest request, bool latest, Watching watching, BootInstant deadline,
                 Done<wire::RangeResponse> done);
  std::function<void()> waking(const contend::WakerPtr& waker);
  void keep_watch(const contend::WakerPtr& waker, std::uint64_t watch);
  void list_more(const std::shared_ptr<Folders>& all);

  const EtcdAddress address_;
  port::Loop* const loop_;
  std::unique_ptr<Rpc> rpc_;
  std::unique_ptr<StoreSession> session_;
  contend::Events* events_ = nullptr;
  PerLockOrder order_;
  // An entry is two steps of a transaction, and by default a server takes 128. (A server with a
  // lower limit refuses, and then gets fewer.)
  static constexpr contend::BatchLimits kLimits{.parts = 48, .bytes = 64 * 1024, .calls = 2};
  Entries entries_{kLimits};
  Removals removals_{kLimits};
  bool sending_soon_ = false;

  bool unsettled_ = false;
  bool fencing_ = false;
  std::string unsettled_by_;  // The last failed fence's reason.
  std::vector<std::pair<BootInstant, std::function<void(const Result<void>&)>>> settling_;
  std::int64_t seen_ = 0;  // The newest revision in any answer to this client.
  std::vector<std::pair<std::weak_ptr<contend::Waker>, std::uint64_t>> watches_;
  std::size_t swept_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// --- For the sources of the backend.

template <typename T>
std::function<void(Result<T>)> EtcdBackend::on_loop(Done<T> done) {
  return [this, done = std::move(done)](Result<T> answer) {
    post([done, answer = std::move(answer)]() mutable { done(std::move(answer)); });
  };
}

template <typename T>
void EtcdBackend::fail(const Done<T>& done, Error why) {
  post([done, why = std::move(why)] { done(why); });
}

template <typename T>
void EtcdBackend::note(std::uint64_t epoch, const Result<T>& answer, bool may_have_written) {
  if (answer) {
    seen_ = std::max(seen_, answer->header().revision());
  } else if (answer.error().code() == Errc::kLost) {
    session_->lost(epoch, answer.error().message());
  } else if (may_have_written && answer.error().code() == Errc::kOutcomeUnknown) {
    unsettled_ = true;
  }
}

// Attempts of a request. A fence between two of them changes the session's key, which the request
// expects unchanged.
constexpr int kAttempts = 3;

inline std::uint64_t number(std::int64_t revision) { return static_cast<std::uint64_t>(revision); }

}  // namespace holdfast::stores::etcd
