// The contenders' operations on Consul: src/contend/backend.h describes each one.
//
// A contender is a key that the client's session has acquired, ordered by the index of its
// creation. An entry is one transaction: it acquires the key and reads the lock's folder at the
// same index. See docs/design/0015-consul-store.md.
//
// Changes (backend_writes.cc) go through Writes. Reads (backend_reads.cc) are retried until their
// deadline. With ?recipe=consul a grant needs LockGate, too.
//
// No I/O before start(). Thread-safety: see contend/backend.h. Ownership: the loop outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/result.h"
#include "src/contend/backend.h"
#include "src/port/boot_timer.h"
#include "src/port/registry.h"
#include "src/stores/consul/handoff.h"
#include "src/stores/consul/keys.h"
#include "src/stores/consul/store_session.h"
#include "src/stores/consul/transport/gate.h"
#include "src/stores/consul/transport/http.h"
#include "src/stores/consul/transport/messages.h"
#include "src/stores/consul/url.h"
#include "src/stores/consul/watches.h"
#include "src/stores/consul/writes.h"

namespace holdfast::stores::consul {

class ConsulBackend final : public contend::Backend {
 public:
  using BootInstant = base::BootInstant;
  using QueueEntry = contend::QueueEntry;

  ConsulBackend(const ConsulAddress& address, const port::StoreContext& context);
  ~ConsulBackend() override;

  void start(contend::Events* events) override { events_ = events; }
  contend::SessionView session() const override;
  void ensure_session(BootInstant deadline, Done<contend::SessionView> done) override;
  std::string session_tag() const override { return session_->id(); }

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
  void handoff(std::uint64_t epoch, std::string lock, QueueEntry place,
               const machine::Token& held_with, BootInstant deadline, Done<bool> done) override;
  bool remembers_names() const override { return !gate_.on(); }
  bool gated() const override { return gate_.on(); }
  bool keeps() const override { return !gate_.on(); }
  void keep(std::uint64_t epoch, contend::Keep what, BootInstant deadline,
            Done<std::optional<contend::Read>> done) override;
  void end_kept_lease(const std::string& lease) override;
  void pass_gate(std::uint64_t epoch, std::string lock, QueueEntry place, contend::Details details,
                 contend::WakerPtr waker, BootInstant deadline, Done<contend::Gate> done) override;
  void read_record(std::string lock, BootInstant deadline,
                   Done<std::pair<contend::Record, std::uint64_t>> done) override;
  void read_value(std::string lock, BootInstant deadline, Done<contend::Value> done) override;
  void apply(contend::Change change, BootInstant deadline,
             Done<std::optional<std::uint64_t>> done) override;
  void notify(std::string session_tag, std::function<void()> then) override;
  void list_locks(std::string prefix, std::size_t limit, BootInstant deadline,
                  Done<contend::Locks> done) override;

  Guarantees guarantees() const override;
  void look_at_servers(BootInstant deadline, Done<contend::Servers> done) override;
  void probe(BootInstant deadline, Done<std::vector<Finding>> done) override;
  void close(BootInstant deadline) override;
  void abandon_after_fork() noexcept override;

 private:
  using GetDone = std::function<void(Result<HttpReply>)>;

  template <typename T>
  void later(Done<T> done, Error error) {
    loop_.post([done = std::move(done), error = std::move(error)] { done(error); });
  }
  StoreSession::Events session_events();
  void ask_once(const std::string& target, BootInstant deadline, std::size_t agents, GetDone done);
  void stop_on_loop(BootInstant deadline, std::function<void()> done);

  // --- backend_writes.cc
  // The gate's key is in no lock's folder.
  bool may_join() const { return !gate_.on(); }
  // `gate` is the index of the gate's key, which is removed, too.
  void send_change(contend::Change change, std::optional<std::uint64_t> gate, BootInstant deadline,
                   Done<std::optional<std::uint64_t>> done);
  void remove_as(std::uint64_t epoch, const std::string& lock, const QueueEntry& place,
                 std::optional<HandoffNote> left, BootInstant deadline, Done<bool> done);

  // --- backend_keep.cc: contenders with sessions of their own.
  struct Keeping;
  void move_to_session(const std::shared_ptr<Keeping>& keeping);
  void on_moved(const std::shared_ptr<Keeping>& keeping, const std::string& path,
                const Result<TransactionReply>& answer);
  void destroy(const std::string& session);

  // --- backend_reads.cc A request that only reads, retried until its deadline.
  void get(std::string target, BootInstant deadline, GetDone done);
  void try_get(const std::string& target, BootInstant deadline, GetDone done);
  void get_pairs(std::string target, BootInstant deadline,
                 std::function<void(Result<std::vector<Pair>>, std::uint64_t index)> done);
  // Reads a contender again after a write that expected its last state was refused. nullopt if it
  // is gone, or was not written since.
  void look_again(const std::string& lock, const QueueEntry& place, BootInstant deadline,
                  Done<std::optional<QueueEntry>> done);
  void check_reading(const std::string& key, BootInstant deadline,
                     std::function<void(Result<void>)> done);
  Result<contend::Listing> listing_of(const std::string& lock, const std::vector<Pair>& pairs,
                                      bool in_full) const;
  struct Asker {
    std::weak_ptr<contend::Waker> waker;
    BootInstant deadline{};
    Done<contend::Listing> done;
  };
  // Callers that want a lock's listing. Callers that come during one share the next.
  struct Asked {
    bool busy = false;
    std::vector<Asker> next;
  };
  void list_shared(const std::string& prefix, contend::Locks locks, BootInstant deadline,
                   const Done<contend::Locks>& done);
  void list_for_all(const std::pair<std::string, bool>& what);
  void list_as(const std::string& lock, bool in_full, const contend::WakerPtr& waker,
               BootInstant deadline, Done<contend::Listing> done);

  const ConsulAddress address_;
  port::Loop& loop_;
  contend::Events* events_ = nullptr;
  const Keys keys_;
  const std::shared_ptr<Agents> agents_;
  HttpLoop http_;
  port::BootTimer read_timer_;
  std::vector<std::function<void()>> reads_again_;
  std::shared_ptr<Watches> watches_;
  std::shared_ptr<Handoffs> handoffs_;
  std::shared_ptr<StoreSession> session_;
  std::shared_ptr<Writes> writes_;
  LockGate gate_;
  std::map<std::pair<std::string, bool>, Asked> lists_;
  bool closed_ = false;  // On the loop.
  bool close_called_ = false;
};

}  // namespace holdfast::stores::consul
