#include "src/stores/memcached/memcached_store.h"

#include <atomic>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/abandon.h"
#include "src/stores/memcached/doctor.h"
#include "src/stores/memcached/engine.h"
#include "src/stores/memcached/guarantees.h"
#include "src/stores/memcached/protocol/requests.h"
#include "src/stores/memcached/url.h"

namespace holdfast::stores {
namespace {

using base::BootInstant;
using port::AcquisitionState;
using port::Done;
using port::EndStatus;

class MemcachedStore final : public port::Store {
 public:
  MemcachedStore(const memcached::MemcachedAddress& address, const port::StoreContext& context,
                 MemcachedTuning tuning)
      : loop_(context.loop),
        engine_(std::make_shared<memcached::Engine>(
            address, context,
            memcached::Engine::Tuning{std::move(tuning.now), std::move(tuning.sightings)})) {}

  ~MemcachedStore() override {
    if (!gone_) close({});
  }

  // Errors: kUnavailable, kPermissionDenied, kVersionMismatch, kInvalidArgument.
  Result<void> connect(BootInstant open_by) {
    const BootInstant deadline =
        std::min(open_by, base::BootClock::now() + std::chrono::seconds(5));
    auto version = ask_now("version\r\n", deadline);
    if (!version) return version.error();
    auto settings = ask_now("stats settings\r\n", deadline);
    if (!settings) return settings.error();
    auto fit = memcached::check_server(*version, *settings, engine_->address());
    if (fit) engine_->opened();
    return fit;
  }

  Guarantees guarantees() const override { return memcached::guarantees(); }

  void acquire(port::AcquireRequest request, Done<AcquisitionState> done) override {
    engine_->submit(memcached::acquire_command(std::move(request), std::move(done)));
  }

  std::optional<Result<AcquisitionState>> acquire_inline(
      const port::AcquireRequest& request) override {
    return engine_->acquire_here(request);
  }
  std::optional<Result<EndStatus>> release_inline(
      const port::AcquisitionRequest& request) override {
    return engine_->release_here(request);
  }

  void renew(std::vector<port::RenewItem> items, BootInstant deadline,
             Done<std::vector<Result<AcquisitionState>>> done) override {
    struct Batch {
      std::vector<Result<AcquisitionState>> states;
      std::size_t left;
      Done<std::vector<Result<AcquisitionState>>> done;
    };
    if (items.empty()) {
      return loop_->post(
          [done = std::move(done)] { done(std::vector<Result<AcquisitionState>>()); });
    }
    auto batch = std::make_shared<Batch>(
        Batch{std::vector<Result<AcquisitionState>>(items.size(), AcquisitionState()), items.size(),
              std::move(done)});
    for (std::size_t at = 0; at < items.size(); ++at) {
      engine_->submit(memcached::renew_command(items[at], deadline,
                                               [batch, at](Result<AcquisitionState> state) {
                                                 batch->states[at] = std::move(state);
                                                 if (--batch->left > 0) return;
                                                 batch->done(std::move(batch->states));
                                               }));
    }
  }

  void release(port::AcquisitionRequest request, Done<EndStatus> done) override {
    engine_->submit(memcached::end_command(std::move(request), /*release=*/true, std::move(done)));
  }
  void cancel(port::AcquisitionRequest request, Done<EndStatus> done) override {
    engine_->submit(memcached::end_command(std::move(request), /*release=*/false, std::move(done)));
  }

  void downgrade(port::AcquisitionRequest request, Done<AcquisitionState> done) override {
    engine_->submit(memcached::downgrade_command(std::move(request), std::move(done)));
  }

  void inspect(std::string name, BootInstant deadline,
               Done<std::optional<LockInfo>> done) override {
    engine_->look(
        std::move(name), deadline,
        [engine = engine_.get(),
         done = std::move(done)](Result<std::optional<memcached::Document>> seen) {
          if (!seen) return done(seen.error());
          if (!*seen) return done(std::optional<LockInfo>());
          done(std::optional<LockInfo>(memcached::describe(**std::move(seen), engine->now())));
        });
  }

  void list(std::string, std::size_t, BootInstant, Done<std::vector<LockInfo>> done) override {
    const Error why = gone_ ? Error(Errc::kClosed, "the memcached store was closed")
                            : Error(Errc::kUnsupported,
                                    "memcached cannot list its keys: look at one lock by its name "
                                    "(holdfast inspect NAME)");
    loop_->post([done = std::move(done), why] { done(why); });
  }

  void break_lock(port::BreakRequest request, Done<bool> done) override {
    engine_->submit(memcached::break_command(std::move(request), std::move(done)));
  }

  void probe(BootInstant deadline, Done<std::vector<Finding>> done) override {
    memcached::examine(*engine_, deadline, std::move(done));
  }

  void set_value(port::AcquisitionRequest holder, std::string value, Done<bool> done) override {
    engine_->submit(
        memcached::set_value_command(std::move(holder), std::move(value), std::move(done)));
  }

  void keep(port::KeepRequest request, Done<bool> done) override {
    engine_->submit(memcached::keep_command(std::move(request), std::move(done)));
  }

  void get_value(std::string name, BootInstant deadline, Done<std::string> done) override {
    engine_->look(std::move(name), deadline,
                  [done = std::move(done)](Result<std::optional<memcached::Document>> seen) {
                    if (!seen) return done(seen.error());
                    done(*seen ? (*seen)->image.value : std::string());
                  });
  }

  void resize(port::AcquisitionRequest request, std::uint32_t capacity, Done<bool> done) override {
    engine_->submit(memcached::resize_command(std::move(request), capacity, std::move(done)));
  }

  void close(BootInstant deadline) override {
    if (gone_.exchange(true)) return;
    engine_->close(deadline);
  }

  // Nothing is touched that the parent's threads may hold.
  void abandon_after_fork() noexcept override {
    gone_ = true;
    engine_->abandon();
    base::abandon(engine_);
  }

 private:
  // Waits, while the store is made.
  Result<memcached::Reply> ask_now(const std::string& request, BootInstant deadline) {
    auto promise = std::make_shared<std::promise<Result<memcached::Reply>>>();
    auto future = promise->get_future();
    engine_->ask(request, deadline, [promise](Result<memcached::Reply> reply) {
      promise->set_value(std::move(reply));
    });
    return future.get();
  }

  port::Loop* const loop_;
  const std::shared_ptr<memcached::Engine> engine_;
  std::atomic<bool> gone_{false};
};

}  // namespace

Result<std::unique_ptr<port::Store>> make_memcached_store(port::StoreUrl url,
                                                          const port::StoreContext& context) {
  return make_memcached_store_for_test(std::move(url), context, {});
}

Result<std::unique_ptr<port::Store>> make_memcached_store_for_test(
    port::StoreUrl url, const port::StoreContext& context, MemcachedTuning tuning) {
  const auto address = memcached::parse_memcached_url(url);
  if (!address) return address.error();
  if (auto known = port::reject_unknown_options(url, "memcached"); !known) return known.error();
  auto store = std::make_unique<MemcachedStore>(*address, context, std::move(tuning));
  if (auto connected = store->connect(context.open_by); !connected) return connected.error();
  return std::unique_ptr<port::Store>(std::move(store));
}

}  // namespace holdfast::stores
