#include "src/contend/contend_store.h"

#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <utility>

#include "src/contend/answers.h"
#include "src/contend/engine.h"

namespace holdfast::contend {
namespace {

using base::BootClock;
using base::BootInstant;
using port::AcquisitionState;
using port::Done;
using port::EndStatus;

// Answers once. A completion that is dropped without an answer (the store was closed) gets kClosed.
class Store final : public port::Store {
 public:
  Store(std::unique_ptr<Backend> backend, const port::StoreContext& context,
        machine::Duration min_ttl)
      : loop_(context.loop),
        backend_(std::move(backend)),
        engine_(std::make_shared<Engine>(*backend_, context, min_ttl)) {
    loop_->post([engine = engine_, backend = backend_.get()] {
      if (!engine->closed()) backend->start(engine.get());
    });
  }

  ~Store() override {
    if (!gone_) close(BootClock::now());
  }

  Guarantees guarantees() const override {
    return bounded_by(backend_->guarantees(), servers_->get());
  }

  Result<void> meet(const FirstContact& contact) {
    constexpr auto kSilence = std::chrono::milliseconds(300);
    const auto answer = std::make_shared<std::promise<Result<Servers>>>();
    auto answered = answer->get_future();
    loop_->post([engine = engine_, backend = backend_.get(), answer, until = contact.until] {
      if (engine->closed()) return answer->set_value(closed_error());
      backend->look_at_servers(
          until, [answer](Result<Servers> servers) { answer->set_value(std::move(servers)); });
    });
    if (contact.when_silent && answered.wait_for(kSilence) != std::future_status::ready) {
      if (auto somebody = contact.when_silent(); !somebody) return somebody;
    }
    Result<Servers> servers = answered.get();
    if (servers) {
      servers_->set(*std::move(servers));
    } else if (servers.error().code() == contact.fatal) {
      return servers.error();
    }
    return {};
  }

  void acquire(port::AcquireRequest request, Done<AcquisitionState> done) override {
    run(std::move(done), [request = std::move(request), now = BootClock::now()](
                             Engine& engine, const Done<AcquisitionState>& answer) mutable {
      engine.acquire(std::move(request), now, answer);
    });
  }

  void renew(std::vector<port::RenewItem> items, BootInstant deadline,
             Done<std::vector<Result<AcquisitionState>>> done) override {
    run(std::move(done),
        [items = std::move(items), now = BootClock::now(), deadline](
            Engine& engine, const Done<std::vector<Result<AcquisitionState>>>& answer) {
          engine.renew(items, now, deadline, answer);
        });
  }

  void release(port::AcquisitionRequest request, Done<EndStatus> done) override {
    run(std::move(done),
        [request = std::move(request)](Engine& engine, const Done<EndStatus>& answer) {
          engine.end(request, answer);
        });
  }

  void cancel(port::AcquisitionRequest request, Done<EndStatus> done) override {
    release(std::move(request), std::move(done));
  }

  void downgrade(port::AcquisitionRequest request, Done<AcquisitionState> done) override {
    run(std::move(done),
        [request = std::move(request)](Engine& engine, const Done<AcquisitionState>& answer) {
          engine.downgrade(request, answer);
        });
  }

  void inspect(std::string name, BootInstant deadline,
               Done<std::optional<LockInfo>> done) override {
    run(std::move(done), [name = std::move(name), deadline](
                             Engine& engine, const Done<std::optional<LockInfo>>& answer) {
      engine.administration().inspect(name, deadline, answer);
    });
  }

  void list(std::string prefix, std::size_t limit, BootInstant deadline,
            Done<std::vector<LockInfo>> done) override {
    run(std::move(done), [prefix = std::move(prefix), limit, deadline](
                             Engine& engine, const Done<std::vector<LockInfo>>& answer) {
      engine.administration().list(prefix, limit, deadline, answer);
    });
  }

  void break_lock(port::BreakRequest request, Done<bool> done) override {
    run(std::move(done), [request = std::move(request)](Engine& engine, const Done<bool>& answer) {
      engine.administration().break_lock(request, answer);
    });
  }

  void keep(port::KeepRequest request, Done<bool> done) override {
    if (!backend_->keeps()) return port::Store::keep(std::move(request), std::move(done));
    run(std::move(done),
        [request = std::move(request)](Engine& engine, const Done<bool>& answer) mutable {
          engine.keep(std::move(request), answer);
        });
  }

  void probe(BootInstant deadline, Done<std::vector<Finding>> done) override {
    run(std::move(done), [deadline, servers = servers_, backend = backend_.get(), kept = engine_](
                             Engine&, const Done<std::vector<Finding>>& answer) {
      backend->look_at_servers(
          deadline, [deadline, servers, kept, answer](const Result<Servers>& now) {
            if (now) servers->set(*now);
            if (kept->closed()) return answer(closed_error());
            kept->administration().probe(deadline,
                                         [servers, answer](Result<std::vector<Finding>> findings) {
                                           if (findings) add_findings(servers->get(), *findings);
                                           answer(std::move(findings));
                                         });
          });
    });
  }

  void set_value(port::AcquisitionRequest holder, std::string value, Done<bool> done) override {
    run(std::move(done),
        [holder = std::move(holder), value = std::move(value)](
            Engine& engine, const Done<bool>& answer) { engine.set_value(holder, value, answer); });
  }

  void get_value(std::string name, BootInstant deadline, Done<std::string> done) override {
    run(std::move(done),
        [name = std::move(name), deadline](Engine& engine, const Done<std::string>& answer) {
          engine.administration().get_value(name, deadline, answer);
        });
  }

  void resize(port::AcquisitionRequest request, std::uint32_t capacity, Done<bool> done) override {
    run(std::move(done),
        [request = std::move(request), capacity](Engine& engine, const Done<bool>& answer) {
          engine.resize(request, capacity, answer);
        });
  }

  void close(BootInstant deadline) override {
    if (std::exchange(gone_, true)) return;
    // Closes the engine first, before the backend ends its requests with answers.
    std::promise<void> drained;
    auto waiting = drained.get_future();
    loop_->post([engine = engine_, &drained] {
      engine->close();
      drained.set_value();
    });
    waiting.wait();
    backend_->close(std::max(deadline, BootClock::now()));
  }

  void abandon_after_fork() noexcept override {
    gone_ = true;
    backend_->abandon_after_fork();
    // Leaked on purpose: its callbacks belong to the parent's threads.
    static_cast<void>(new (std::nothrow) std::shared_ptr<Engine>(engine_));
    static_cast<void>(backend_.release());
  }

 private:
  template <typename T, typename Work>
  void run(Done<T> done, Work work) {
    loop_->post([engine = engine_, done = std::move(done), work = std::move(work)]() mutable {
      if (engine->closed()) return done(closed_error());
      work(*engine, done);
    });
  }

  static void add_findings(const Servers& servers, std::vector<Finding>& findings) {
    if (!servers.survive_restart) {
      findings.push_back({Severity::kWarning, "restart",
                          "locks may be forgotten, and tokens come again: " + servers.restart_note,
                          "let what the locks protect refuse old tokens, or use other servers"});
    }
    if (!servers.survive_failover) {
      findings.push_back({Severity::kWarning, "fail-over",
                          "there is none that keeps the locks: " + servers.failover_note,
                          "run three servers or more, each with a disk of its own"});
    }
  }

  port::Loop* loop_;
  const std::shared_ptr<KnownServers> servers_ = std::make_shared<KnownServers>();
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<Engine> engine_;
  bool gone_ = false;
};

}  // namespace

Guarantees guarantees() {
  Guarantees result;
  result.fenced = result.fair = result.shared = result.permits = result.upgrade = true;
  result.list = result.values = true;
  result.multi = result.watch_every_change = false;
  result.bound_to_client = result.ends_with_client = true;
  return result;
}

Result<std::unique_ptr<port::Store>> make_store(std::unique_ptr<Backend> backend,
                                                const port::StoreContext& context,
                                                machine::Duration min_ttl,
                                                const FirstContact& contact) {
  auto store = std::make_unique<Store>(std::move(backend), context, min_ttl);
  if (auto met = store->meet(contact); !met) return met.error();
  return std::unique_ptr<port::Store>(std::move(store));
}

}  // namespace holdfast::contend
