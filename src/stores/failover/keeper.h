// The authority of one client over a chain: asks what SwitchFsm wants to know, on a thread of its
// own, and tells which store may be used until when.
//
// Names in the last store: the record is the value beside "../failover/record", whose exclusive
// lock the switcher has. "../failover/e<epoch>" is the authority lease, shared by all clients.
// "../failover/ok<epoch>" is shared by those who reach the active store. "../failover/stamp" has
// the stamp, in each store. No user's lock has a '..' in its name.
//
// Guarantee: use() names a store only while the client holds a shared authority lease of its epoch,
// counted from before the request that it hangs on was sent. A client whose leases could be longer
// than a drain waits gets none.
// Thread-safety: any thread. Blocking: open() and close(). Ownership: the loop outlives it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/base/local_mutex.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/stores/failover/switch_fsm.h"

namespace holdfast::stores::failover {

class Keeper {
 public:
  using BootInstant = base::BootInstant;
  using Milliseconds = std::chrono::milliseconds;

  struct Link {
    port::StoreFactory factory = nullptr;
    port::StoreUrl url;
  };
  struct Settings {
    std::string identity;
    Milliseconds authority{};
    Milliseconds patience{};
    Milliseconds settled{};
    std::function<port::Listener*(std::uint32_t place)> listener_of;
    std::function<void()> changed;  // Called on the loop: use() may answer otherwise.
  };
  struct Use {
    std::uint32_t epoch = 0;
    std::uint32_t place = 0;
    port::Store* store = nullptr;
    port::Duration least_ttl{};
    bool forgetful = false;  // It may lose its memory: its stamp is read after each grant.
    std::string stamp{};
    BootInstant sure_until{};
  };

  Keeper(std::vector<Link> chain, const port::StoreContext& context, Settings settings);
  ~Keeper();

  // Connects to the last store. Errors: as of its factory.
  Result<void> connect();
  // Then: begins to follow the record.
  void start();
  // The record, before start(). Errors: kUnavailable, kCorruptState ...
  Result<std::optional<ChainRecord>> look();
  // Whether a switch to that store could succeed, before start(): it answers, and belongs to no
  // other chain.
  Result<void> try_out(std::uint32_t place, const std::optional<ChainRecord>& record);
  std::optional<Use> use() const HOLDFAST_EXCLUDES(mutex_);
  // Why there is none, for messages.
  Error why_not() const HOLDFAST_EXCLUDES(mutex_);
  std::optional<ChainRecord> record() const HOLDFAST_EXCLUDES(mutex_);
  bool reaches_store() const HOLDFAST_EXCLUDES(mutex_);
  void order(std::uint32_t place) HOLDFAST_EXCLUDES(mutex_);
  // Look now: a store has forgotten something.
  void wake() HOLDFAST_EXCLUDES(mutex_);
  std::string stamp_name() const { return name_of("stamp"); }
  std::string shown(std::uint32_t place) const { return chain_[place].url.redacted(); }
  std::size_t size() const { return chain_.size(); }

  void close(BootInstant deadline);
  void abandon_after_fork() noexcept;

 private:
  // A lock of this client in the last store.
  struct Held {
    std::string name{};
    port::AcquisitionId id{};
    std::uint64_t issue = 0;
    std::uint64_t seq = 0;
    machine::Mode mode{};
    BootInstant sent{};  // The newest request's.
    BootInstant sure_until{};
    std::uint32_t epoch = 0;

    bool sure() const { return base::BootClock::now() < sure_until; }
  };
  // The thread asks; it needs no pushes.
  class Deaf final : public port::Listener {
    void on_push(const port::Push&) override {}
  };
  struct Opened {
    std::unique_ptr<port::Store> store;
    port::Duration least_ttl{};
    bool forgetful = false;
  };

  void run();
  void rest_until(BootInstant until);
  SwitchFsm::Answer ask(const SwitchFsm::Query& question);
  SwitchFsm::Answer read();
  SwitchFsm::Answer serve(const SwitchFsm::Query& question);
  Stamp look_at(const ChainRecord& record);
  bool write(const ChainRecord& record);
  bool put_stamp(const ChainRecord& record);
  void drop_authority();
  void publish();
  void keep_alive(bool now);
  bool take(Held& held, const std::string& name, const machine::Mode& mode);
  void give_back(Held& held);
  Opened* opened(std::uint32_t place);
  BootInstant soon() const;
  std::string name_of(const std::string& what) const { return prefix_ + what; }

  template <typename T>
  Result<T> await(const std::function<void(port::Done<T>)>& start);

  const std::vector<Link> chain_;
  port::StoreContext context_;
  const Settings settings_;
  const std::string prefix_;
  Deaf deaf_;
  std::unique_ptr<port::Store> anchor_;
  port::Duration anchor_ttl_{};

  // The thread's.
  SwitchFsm fsm_;
  Held share_;
  Held report_;
  Held claim_;
  Held drain_;
  std::uint64_t last_issue_ = 0;
  std::vector<Opened> stores_;
  std::string last_error_;

  mutable base::LocalMutex mutex_;
  base::LocalCondition woken_;
  std::optional<Use> use_ HOLDFAST_GUARDED_BY(mutex_);
  std::string why_not_ HOLDFAST_GUARDED_BY(mutex_) = "it has just begun";
  std::optional<ChainRecord> record_ HOLDFAST_GUARDED_BY(mutex_);
  bool reaches_ HOLDFAST_GUARDED_BY(mutex_) = true;
  std::optional<std::uint32_t> ordered_ HOLDFAST_GUARDED_BY(mutex_);
  bool wake_ HOLDFAST_GUARDED_BY(mutex_) = false;
  bool end_ HOLDFAST_GUARDED_BY(mutex_) = false;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace holdfast::stores::failover
