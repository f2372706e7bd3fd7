#include "src/stores/redlock/redlock_store.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "src/base/abandon.h"
#include "src/base/random.h"
#include "src/stores/redis/transport/loop_link.h"
#include "src/stores/redlock/doctor.h"
#include "src/stores/redlock/engine.h"
#include "src/stores/redlock/guarantees.h"
#include "src/stores/redlock/listing.h"
#include "src/stores/redlock/nodes.h"
#include "src/stores/redlock/url.h"

namespace holdfast::stores {
namespace {

using base::BootClock;
using base::BootInstant;
using port::AcquisitionState;
using port::Done;
using port::EndStatus;
using redlock::Engine;
using redlock::Nodes;

Error closed_error() { return {Errc::kClosed, "the redlock store was closed"}; }

class RedlockStore final : public port::Store {
 public:
  RedlockStore(const redlock::RedlockAddress& address, const port::StoreContext& context,
               const RedlockTuning& tuning)
      : io_(*context.io),
        loop_(context.loop),
        listener_(context.listener),
        name_space_(context.name_space),
        nodes_(std::make_shared<Nodes>(
            address, context,
            Nodes::NodeEvents{
                [this](std::string line) {
                  loop_->post(
                      [listener = listener_, line = std::move(line)] { listener->on_alarm(line); });
                },
                [this](std::size_t node, std::string_view key) { engine_->hint(node, key); }},
            tuning.now)),
        engine_(std::make_shared<Engine>(*nodes_, context, tuning.now)) {}

  ~RedlockStore() override {
    if (!gone_) close({});
  }

  // Connects, or makes a new cluster of the nodes. Errors: as make_redlock_store().
  Result<bool> prepare(void (Nodes::*how)(BootInstant, Done<bool>), BootInstant open_by) {
    const BootInstant deadline = std::min(open_by, BootClock::now() + std::chrono::seconds(5));
    const auto promise = std::make_shared<std::promise<Result<bool>>>();
    auto future = promise->get_future();
    loop_->post([this, how, deadline, promise] {
      (*nodes_.*how)(deadline,
                     [promise](Result<bool> made) { promise->set_value(std::move(made)); });
    });
    return future.get();
  }

  Guarantees guarantees() const override {
    return redlock::guarantees(nodes_->address().longest_ttl, nodes_->address().tokens);
  }

  void acquire(port::AcquireRequest request, Done<AcquisitionState> done) override {
    run(std::move(done), [this, request = std::move(request)](auto answer) mutable {
      engine_->acquire(std::move(request), std::move(answer));
    });
  }
  void renew(std::vector<port::RenewItem> items, BootInstant deadline,
             Done<std::vector<Result<AcquisitionState>>> done) override {
    run(std::move(done), [this, items = std::move(items), deadline](auto answer) {
      engine_->renew(items, deadline, std::move(answer));
    });
  }
  void release(port::AcquisitionRequest request, Done<EndStatus> done) override {
    run(std::move(done), [this, request = std::move(request)](auto answer) {
      engine_->end(request, std::move(answer));
    });
  }
  void cancel(port::AcquisitionRequest request, Done<EndStatus> done) override {
    release(std::move(request), std::move(done));
  }
  void downgrade(port::AcquisitionRequest request, Done<AcquisitionState> done) override {
    run(std::move(done), [this, request = std::move(request)](auto answer) {
      if (engine_->holds(request.name, request.id)) {
        return answer(Error(Errc::kUnsupported, "redlock has exclusive locks only"));
      }
      answer(AcquisitionState{.status = port::AcquisitionStatus::kGone});
    });
  }
  void inspect(std::string name, BootInstant deadline,
               Done<std::optional<LockInfo>> done) override {
    run(std::move(done), [this, name = std::move(name), deadline](auto answer) {
      engine_->inspect(name, deadline, std::move(answer));
    });
  }
  void list(std::string prefix, std::size_t limit, BootInstant deadline,
            Done<std::vector<LockInfo>> done) override {
    run(std::move(done), [this, prefix = std::move(prefix), limit, deadline](auto answer) {
      redlock::list_locks(
          *nodes_,
          [this, deadline](const std::string& name, Done<std::optional<LockInfo>> seen) {
            engine_->inspect(name, deadline, std::move(seen));
          },
          prefix, limit, deadline, std::move(answer));
    });
  }
  void break_lock(port::BreakRequest request, Done<bool> done) override {
    run(std::move(done), [this, request = std::move(request)](auto answer) {
      engine_->break_lock(request, std::move(answer));
    });
  }
  void probe(BootInstant deadline, Done<std::vector<Finding>> done) override {
    run(std::move(done), [this, deadline](auto answer) {
      redlock::examine(
          *nodes_, [this, deadline](Done<void> tried) { try_lock(deadline, std::move(tried)); },
          deadline, std::move(answer));
    });
  }
  void set_value(port::AcquisitionRequest, std::string, Done<bool> done) override {
    run(std::move(done), [](auto answer) { answer(no_values()); });
  }
  void get_value(std::string, BootInstant, Done<std::string> done) override {
    run(std::move(done), [](auto answer) { answer(no_values()); });
  }
  void keep(port::KeepRequest request, Done<bool> done) override {
    run(std::move(done), [this, request = std::move(request)](auto answer) {
      engine_->keep(request, std::move(answer));
    });
  }
  void resize(port::AcquisitionRequest, std::uint32_t, Done<bool> done) override {
    run(std::move(done), [](auto answer) {
      answer(Error(Errc::kUnsupported, "redlock has exclusive locks only, and no permits"));
    });
  }

  void close(BootInstant deadline) override {
    if (gone_.exchange(true)) return;
    const auto ended = std::make_shared<std::promise<void>>();
    auto flushed = ended->get_future();
    asio::post(io_, [this, ended] { engine_->when_ended([ended] { ended->set_value(); }); });
    flushed.wait_for(std::max(deadline - BootClock::now(), BootClock::duration::zero()));
    redis::run_on_loop(io_, [this] {
      engine_->close();
      nodes_->shut();
    });
    nodes_->close();
    redis::run_on_loop(io_, [] {});  // Whatever was posted meanwhile has run.
  }

  // Nothing is touched that the parent's threads may hold.
  void abandon_after_fork() noexcept override {
    gone_ = true;
    nodes_->abandon();
    engine_->abandon();
    base::abandon(nodes_);
    base::abandon(engine_);
  }

 private:
  static Error no_values() {
    return {Errc::kUnsupported, "redlock keeps no value beside a lock: use another store for it"};
  }

  // On the loop, never inline.
  template <typename T, typename Operation>
  void run(Done<T> done, Operation operation) {
    asio::post(io_, [this, done = std::move(done), operation = std::move(operation)]() mutable {
      if (engine_->closed()) return done(closed_error());
      operation(std::move(done));
    });
  }

  // For the doctor.
  void try_lock(BootInstant deadline, const Done<void>& tried) {
    port::AcquireRequest request;
    request.name = (name_space_.empty() ? "" : name_space_ + "/") + "holdfast-doctor/" +
                   base::to_hex(base::random_128().high, 0).substr(0, 16);
    const auto id = base::random_128();
    request.id = {id.high, id.low};
    request.may_wait = false;
    request.ttl = request.waiter_ttl = std::chrono::milliseconds(
        std::min<std::int64_t>(1000, nodes_->address().longest_ttl.count()));
    request.deadline = deadline;
    const port::AcquisitionRequest end{request.name, request.id, deadline, 0};
    engine_->acquire(std::move(request), [this, end, tried](const Result<AcquisitionState>& state) {
      if (!state) return tried(state.error());
      engine_->end(end, [tried](const Result<EndStatus>& ended) {
        ended ? tried({}) : tried(ended.error());
      });
    });
  }

  asio::io_context& io_;
  port::Loop* const loop_;
  port::Listener* const listener_;
  const std::string name_space_;
  const std::shared_ptr<Nodes> nodes_;
  const std::shared_ptr<Engine> engine_;
  std::atomic<bool> gone_{false};
};

}  // namespace

Result<std::unique_ptr<port::Store>> make_redlock_store(port::StoreUrl url,
                                                        const port::StoreContext& context) {
  return make_redlock_store_for_test(std::move(url), context, {});
}

Result<std::unique_ptr<port::Store>> make_redlock_store_for_test(port::StoreUrl url,
                                                                 const port::StoreContext& context,
                                                                 RedlockTuning tuning) {
  const auto address = redlock::parse_redlock_url(url);
  if (!address) return address.error();
  if (auto known = port::reject_unknown_options(url, "redlock"); !known) return known.error();
  if (context.schema != nullptr && context.schema->print) return std::unique_ptr<port::Store>();
  auto store = std::make_unique<RedlockStore>(*address, context, tuning);
  const auto connected = store->prepare(&Nodes::open, context.open_by);
  if (!connected) return connected.error();
  if (context.schema == nullptr) return std::unique_ptr<port::Store>(std::move(store));
  const auto made = store->prepare(&Nodes::initialize, context.open_by);
  if (!made) return made.error();
  context.schema->made = {"the nodes of " + address->display(), 1, *made};
  return std::unique_ptr<port::Store>();
}

}  // namespace holdfast::stores
