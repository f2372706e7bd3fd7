#include "holdfast/ids/leased_workers.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "holdfast/client.h"
#include "src/base/abandon.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/client/ask.h"
#include "src/ids/leased/slot.h"

namespace holdfast::ids {
namespace {

using base::BootClock;
using std::chrono::milliseconds;

constexpr milliseconds kOperation{30'000};  // For what an operator asks.

class ClientLease final : public SlotLease {
 public:
  explicit ClientLease(Lease lease) : lease_(std::move(lease)) {}
  Token token() const override { return lease_.token(); }
  bool held() const override { return lease_.held(); }
  Result<void> resolve_doubt() override {
    if (lease_.state() != LeaseState::kInDoubt) return {};
    const auto renewed = lease_.renew();
    if (renewed || lease_.state() != LeaseState::kInDoubt) return {};
    return Error(Errc::kUnavailable,
                 "the clock jumped, and the store has not confirmed the lease of the worker number "
                 "since: " +
                     renewed.error().message());
  }
  std::chrono::nanoseconds deadline() const override { return lease_.deadline_boottime(); }
  void release() override { static_cast<void>(lease_.release()); }

 private:
  Lease lease_;
};

}  // namespace

struct LeasedWorkers::State {
  State(const Client& its_client, std::unique_ptr<port::Records> its_records, WorkersHead its_head,
        const LeasedWorkersOptions& its_options)
      : client(its_client), head(std::move(its_head)), options(its_options) {
    const base::LocalLock lock(records->mutex);
    records->records = std::move(its_records);
  }

  Result<void> check_alive() const {
    if (generation == base::process_generation()) return {};
    return Error(Errc::kClosed, "these workers of '" + head.name +
                                    "' belong to the parent of a forked process: open them in the "
                                    "child");
  }

  const Client client;
  const WorkersHead head;
  const LeasedWorkersOptions options;
  const SharedRecordsPtr records = std::make_shared<SharedRecords>();
  const std::uint64_t generation = base::process_generation();
};

LeasedWorkers::LeasedWorkers(std::shared_ptr<State> state) : state_(std::move(state)) {}
LeasedWorkers::LeasedWorkers(LeasedWorkers&& other) noexcept = default;
LeasedWorkers& LeasedWorkers::operator=(LeasedWorkers&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
LeasedWorkers::~LeasedWorkers() {
  if (state_ && !state_->check_alive()) base::abandon(state_);
}

const LeasedWorkersSpec& LeasedWorkers::spec() const { return state_->head.spec; }
const std::string& LeasedWorkers::incarnation() const { return state_->head.incarnation; }

Result<void> LeasedWorkers::create(const std::string& url, const std::string& name,
                                   const LeasedWorkersSpec& spec) {
  const auto records = client::open_records(url);
  if (!records) return records.error();
  return create_workers(**records, name, spec, BootClock::now() + kOperation);
}

Result<LeasedWorkers> LeasedWorkers::open(const std::string& url, const std::string& name,
                                          const LeasedWorkersOptions& options) {
  if (options.ttl <= milliseconds::zero() || options.request_timeout <= milliseconds::zero()) {
    return Error(Errc::kInvalidArgument, "ttl and request_timeout of leased workers are positive");
  }
  auto records = client::open_records(url);
  if (!records) return records.error();
  if (options.require_durable && !(*records)->forgets().empty()) {
    return Error(Errc::kUnsupported, "the store is not durable: " + (*records)->forgets());
  }
  auto head = read_workers_head(**records, name, BootClock::now() + options.request_timeout);
  if (!head) return head.error();
  auto client = Client::connect(url);
  if (!client) return client.error();
  const Guarantees given = client->guarantees();
  if (!given.fenced) {
    return Error(Errc::kUnsupported, "the " + given.store + " store's locks have no tokens");
  }
  LeasedWorkersOptions fitting = options;
  fitting.ttl = std::max(fitting.ttl, given.min_ttl);
  return LeasedWorkers(
      std::make_shared<State>(*client, *std::move(records), *std::move(head), fitting));
}

Result<std::unique_ptr<Snowflake>> LeasedWorkers::take(std::int64_t start_above) const {
  if (auto alive = state_->check_alive(); !alive) return alive.error();
  const WorkersHead& head = state_->head;
  const SlotSetting setting{.records = state_->records,
                            .ttl = state_->options.ttl,
                            .request_timeout = state_->options.request_timeout};
  const std::uint64_t workers = head.spec.workers;
  // Hosts begin at numbers of their own. So one whose clock is wrong, and which reserves a far
  // time, spoils the numbers that it uses, and not those of others.
  const std::uint64_t from = std::hash<std::string>()(host_name()) % workers;
  std::uint64_t ahead = 0;
  for (std::uint64_t i = 0; i < workers; ++i) {
    const std::uint64_t worker = (from + i) % workers;
    AcquireOptions lock;
    lock.ttl = state_->options.ttl;
    lock.reason = "worker number of ids";
    auto lease = state_->client.mutex(head.lock_name(worker)).try_acquire(std::move(lock));
    if (!lease) {
      // Nobody waits for a lock here, only for the store.
      const bool late = lease.error().code() == Errc::kTimedOut;
      return late ? Error(Errc::kUnavailable, lease.error().message()) : lease.error();
    }
    if (!*lease) continue;
    auto taken = take_slot(head, worker, std::make_unique<ClientLease>(**std::move(lease)),
                           start_above, setting);
    // Another holder came between the lease and the claim.
    if (!taken && taken.error().code() == Errc::kLost) continue;
    if (!taken || *taken) return taken;
    ++ahead;
  }
  return Error(Errc::kQueueFull,
               "every worker number of the ids '" + head.name + "' is taken" +
                   (ahead == 0 ? std::string()
                               : ", or its time is reserved too far ahead of this host's clock (" +
                                     std::to_string(ahead) +
                                     " of them): that clock is wrong, or another one was") +
                   ". 'holdfast id workers' shows by whom, and until when");
}

namespace {

// The calls that are inside, counted without a lock. Threads have words of their own, most likely.
class Inside {
 public:
  class Visit {
   public:
    explicit Visit(Inside& inside) : count_(inside.counts_[own_place()].value) { ++count_; }
    ~Visit() { --count_; }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    std::atomic<std::int64_t>& count_;
  };

  void wait_until_empty() const {
    for (const Count& each : counts_) {
      while (each.value != 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  static constexpr std::size_t kPlaces = 16;
  struct alignas(64) Count {
    std::atomic<std::int64_t> value{0};
  };

  static std::size_t own_place() {
    static std::atomic<std::size_t> threads{0};
    thread_local const std::size_t place = threads++ % kPlaces;
    return place;
  }

  std::array<Count, kPlaces> counts_;
};

}  // namespace

struct LeasedIds::Impl {
  Impl(std::shared_ptr<LeasedWorkers::State> its_state, std::unique_ptr<Snowflake> first)
      : workers(std::move(its_state)) {
    const base::LocalLock lock(mutex);
    ids = std::move(first);
    in_use = ids.get();
  }

  Result<Id> after_a_loss() HOLDFAST_EXCLUDES(mutex);

  const LeasedWorkers workers;
  Inside inside;
  // The generator for calls without the mutex. None, while another number is being taken. A call
  // reads it after it is counted, so a generator that it does not name and with nobody inside is
  // used by nobody.
  std::atomic<Snowflake*> in_use{nullptr};
  base::LocalMutex mutex;
  std::unique_ptr<Snowflake> ids HOLDFAST_GUARDED_BY(mutex);
};

// The last id of the old generator must be known before another one begins above it.
Result<Id> LeasedIds::Impl::after_a_loss() {
  const base::LocalLock lock(mutex);
  auto id = ids->next();  // Another call may have been here.
  if (id || id.error().code() != Errc::kLost) return id;
  in_use = nullptr;
  inside.wait_until_empty();
  auto another = workers.take(ids->last_unit());
  if (!another) return another.error();
  ids = *std::move(another);
  in_use = ids.get();
  return ids->next();
}

LeasedIds::LeasedIds(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

// A child's copy has nothing to give back, and its mutex may be locked for ever.
LeasedIds::~LeasedIds() {
  if (!impl_->workers.state_->check_alive()) static_cast<void>(impl_.release());
}

Result<std::unique_ptr<LeasedIds>> LeasedWorkers::ids() const {
  auto first = take();
  if (!first) return first.error();
  return std::unique_ptr<LeasedIds>(
      new LeasedIds(std::make_unique<LeasedIds::Impl>(state_, *std::move(first))));
}

Result<Id> LeasedIds::next() {
  // Before all else: at the fork another thread may have had the mutex, or may have been counted.
  if (auto alive = impl_->workers.state_->check_alive(); !alive) return alive.error();
  {
    const Inside::Visit visit(impl_->inside);
    Snowflake* const ids = impl_->in_use;
    if (ids != nullptr) {
      auto id = ids->next();
      if (id || id.error().code() != Errc::kLost) return id;
    }
  }
  return impl_->after_a_loss();
}

IdGuarantees LeasedIds::guarantees() const {
  const base::LocalLock lock(impl_->mutex);
  IdGuarantees made = impl_->ids->guarantees();
  if (!impl_->ids->layout().ordered_over_workers()) made.order = IdOrder::kNone;
  return made;
}

std::uint64_t LeasedIds::worker() const {
  const base::LocalLock lock(impl_->mutex);
  return impl_->ids->worker();
}

Result<std::vector<LeasedWorker>> LeasedWorkers::workers() const {
  if (auto alive = state_->check_alive(); !alive) return alive.error();
  const WorkersHead& head = state_->head;
  const LayoutSpec& layout = head.spec.layout.spec();
  std::vector<LeasedWorker> all;
  for (std::uint64_t worker = 0; worker < head.spec.workers; ++worker) {
    const std::string where =
        "worker " + std::to_string(worker) + " of the ids '" + head.name + "'";
    const auto lock = state_->client.inspect(head.lock_name(worker));
    if (!lock) return lock.error();
    const auto record = [&] {
      const base::LocalLock guard(state_->records->mutex);
      return state_->records->records->read(head.slot_key(worker),
                                            BootClock::now() + state_->options.request_timeout);
    }();
    if (!record) return record.error();
    LeasedWorker shown{.worker = worker, .held = *lock && !(*lock)->holders.empty()};
    const Result<SlotState> slot =
        *record ? SlotState::parse((*record)->text, head.incarnation, worker, where)
                : Error(Errc::kCorruptState, where + ": its record is missing");
    if (slot) {
      shown.host = slot->host;
      shown.pid = slot->pid;
      shown.since = milliseconds(slot->since_ms);
      shown.reserved_until = layout.epoch + layout.unit * slot->bounds.reserved_until;
    } else {
      shown.trouble = slot.error().message();
    }
    all.push_back(std::move(shown));
  }
  return all;
}

}  // namespace holdfast::ids
