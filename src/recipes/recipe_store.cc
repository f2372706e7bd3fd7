#include "src/recipes/recipe_store.h"

#include <algorithm>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/abandon.h"
#include "src/recipes/local_locks.h"

namespace holdfast::recipes {
namespace {

using base::BootClock;
using base::BootInstant;
using port::AcquisitionState;
using port::Done;
using port::EndStatus;

Error closed_error() { return {Errc::kClosed, "the client was closed"}; }

Error unsupported() {
  return {Errc::kUnsupported,
          "with recipe= there are exclusive locks only, without lists, values and breaks, because "
          "the other programs know none of them; 'holdfast inspect NAME' shows one lock"};
}

class RecipeStore final : public port::Store {
 public:
  RecipeStore(std::shared_ptr<Backend> backend, const port::StoreContext& context)
      : loop_(context.loop),
        backend_(std::move(backend)),
        locks_(std::make_shared<LocalLocks>(*backend_, context)) {}
  ~RecipeStore() override {
    if (backend_) close({});
  }

  Result<void> connect(BootInstant open_by) {
    const auto answer = std::make_shared<std::promise<Result<bool>>>();
    auto answered = answer->get_future();
    loop_->post([locks = locks_, backend = backend_, answer, open_by] {
      backend->on_free([weak = std::weak_ptr(locks)](const std::string& key) {
        const auto alive = weak.lock();
        if (alive && !alive->closed()) alive->freed(key);
      });
      const auto deadline = std::min(open_by, BootClock::now() + std::chrono::seconds(10));
      backend->start(
          [weak = std::weak_ptr(locks)](const std::vector<machine::AcquisitionId>& ids) {
            const auto alive = weak.lock();
            if (alive && !alive->closed()) alive->lost(ids);
          },
          locks->by<bool>(deadline, [answer](Result<bool> result) { answer->set_value(result); }));
    });
    const Result<bool> connected = answered.get();
    if (connected) return {};
    const Error& why = connected.error();
    return why.code() == Errc::kOutcomeUnknown ? Error(Errc::kUnavailable, why.message()) : why;
  }

  Guarantees guarantees() const override { return backend_->guarantees(); }

  void acquire(port::AcquireRequest request, Done<AcquisitionState> done) override {
    run(std::move(done), [request = std::move(request)](LocalLocks& locks, auto answer) {
      locks.acquire(request, std::move(answer));
    });
  }
  void renew(std::vector<port::RenewItem> items, BootInstant deadline,
             Done<LocalLocks::States> done) override {
    run(std::move(done), [items = std::move(items), deadline](LocalLocks& locks, auto answer) {
      locks.renew(items, deadline, std::move(answer));
    });
  }
  void release(port::AcquisitionRequest request, Done<EndStatus> done) override {
    run(std::move(done), [request = std::move(request)](LocalLocks& locks, auto answer) {
      locks.end(request, std::move(answer));
    });
  }
  void cancel(port::AcquisitionRequest request, Done<EndStatus> done) override {
    release(std::move(request), std::move(done));
  }
  void downgrade(port::AcquisitionRequest request, Done<AcquisitionState> done) override {
    run(std::move(done), [request = std::move(request)](LocalLocks& locks, auto answer) {
      answer(locks.downgrade(request));
    });
  }
  void inspect(std::string name, BootInstant deadline,
               Done<std::optional<LockInfo>> done) override {
    run(std::move(done), [name = std::move(name), deadline](LocalLocks& locks, auto answer) {
      locks.inspect(name, deadline, std::move(answer));
    });
  }
  void probe(BootInstant deadline, Done<std::vector<Finding>> done) override {
    run(std::move(done), [backend = backend_, deadline](LocalLocks& locks, auto answer) {
      backend->probe(locks.by(deadline, std::move(answer)));
    });
  }

  void list(std::string, std::size_t, BootInstant, Done<std::vector<LockInfo>> done) override {
    refuse(std::move(done));
  }
  void break_lock(port::BreakRequest, Done<bool> done) override {
    run(std::move(done), [backend = backend_](LocalLocks&, const Done<bool>& answer) {
      answer(Error(Errc::kUnsupported, backend->how_to_break()));
    });
  }
  void set_value(port::AcquisitionRequest, std::string, Done<bool> done) override {
    refuse(std::move(done));
  }
  void get_value(std::string, BootInstant, Done<std::string> done) override {
    refuse(std::move(done));
  }
  void resize(port::AcquisitionRequest, std::uint32_t, Done<bool> done) override {
    refuse(std::move(done));
  }

  // Releases that are under way have until the deadline to reach the server.
  void close(BootInstant deadline) override {
    if (std::exchange(closed_, true)) return;
    while (on_loop([](LocalLocks& locks) { return locks.returning(); }) &&
           BootClock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    on_loop([](LocalLocks& locks) { return locks.close(), true; });
    backend_->close();
  }

  void abandon_after_fork() noexcept override {
    closed_ = true;
    backend_->abandon_after_fork();
    base::abandon(std::move(locks_));
    base::abandon(std::move(backend_));
  }

 private:
  template <typename T, typename Work>
  void run(Done<T> done, Work work) {
    loop_->post([locks = locks_, done = std::move(done), work = std::move(work)]() mutable {
      if (locks->closed()) return done(closed_error());
      work(*locks, std::move(done));
    });
  }
  template <typename T>
  void refuse(Done<T> done) {
    run(std::move(done), [](LocalLocks&, const Done<T>& answer) { answer(unsupported()); });
  }
  template <typename Work>
  bool on_loop(Work work) {
    std::promise<bool> promise;
    loop_->post([&] { promise.set_value(work(*locks_)); });
    return promise.get_future().get();
  }

  port::Loop* const loop_;
  std::shared_ptr<Backend> backend_;  // nullptr in a forked child.
  std::shared_ptr<LocalLocks> locks_;
  bool closed_ = false;
};

}  // namespace

Guarantees guarantees(std::string store, std::string scope, std::chrono::milliseconds session) {
  Guarantees result;
  result.store = std::move(store);
  result.scope = std::move(scope);
  result.bound_to_client = result.ends_with_client = true;
  result.min_ttl = result.least_renewal = session;  // Whatever ttl is asked for.
  result.max_ttl = std::chrono::hours(24);
  return result;
}

Result<std::unique_ptr<port::Store>> make_store(std::shared_ptr<Backend> backend,
                                                const port::StoreContext& context) {
  auto store = std::make_unique<RecipeStore>(std::move(backend), context);
  if (auto connected = store->connect(context.open_by); !connected) return connected.error();
  return std::unique_ptr<port::Store>(std::move(store));
}

}  // namespace holdfast::recipes
