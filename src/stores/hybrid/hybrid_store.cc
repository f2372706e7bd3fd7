#include "src/stores/hybrid/hybrid_store.h"

#include <atomic>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/abandon.h"
#include "src/stores/hybrid/filter.h"
#include "src/stores/hybrid/gate.h"
#include "src/stores/hybrid/guarantees.h"
#include "src/stores/hybrid/url.h"

namespace holdfast::stores {
namespace {

using base::BootInstant;
using hybrid::Filter;
using hybrid::Gate;
using port::AcquisitionState;
using port::Done;
using port::EndStatus;
using States = std::vector<Result<AcquisitionState>>;

Error closed_error() { return {Errc::kClosed, "the client was closed"}; }

machine::Instant boot_now() {
  return machine::Instant(
      std::chrono::floor<machine::Duration>(base::BootClock::now().time_since_epoch()));
}

class HybridStore final : public port::Store {
 public:
  HybridStore(const port::StoreContext& context, std::shared_ptr<Gate> gate,
              std::unique_ptr<port::Store> arbiter, std::shared_ptr<Filter> filter)
      : loop_(context.loop),
        gate_(std::move(gate)),
        arbiter_(std::move(arbiter)),
        filter_(std::move(filter)),
        arbiters_(arbiter_->guarantees()) {
    gate_->connect(*arbiter_, *filter_);
  }
  ~HybridStore() override {
    if (!gone_) close({});
  }

  Guarantees guarantees() const override { return hybrid::guarantees(arbiter_->guarantees()); }

  void acquire(port::AcquireRequest request, Done<AcquisitionState> done) override {
    run(std::move(done), [request = std::move(request)](Gate& gate, auto answer) mutable {
      gate.acquire(std::move(request), std::move(answer));
    });
  }

  // The arbiter renews all that it knows, on this thread; the gate answers the rest.
  void renew(std::vector<port::RenewItem> items, BootInstant deadline, Done<States> done) override {
    struct Batch {
      States states;
      std::size_t left = 0;
      Done<States> done;
    };
    auto batch =
        std::make_shared<Batch>(Batch{States(items.size(), AcquisitionState()), items.size(), {}});
    batch->done = std::move(done);
    const auto answer_one = [batch](std::size_t at, Result<AcquisitionState> state) {
      batch->states[at] = std::move(state);
      if (--batch->left == 0) batch->done(std::move(batch->states));
    };
    if (items.empty() || gone_) {
      return loop_->post([batch, closed = gone_.load()] {
        closed ? batch->done(closed_error()) : batch->done(States());
      });
    }
    std::vector<port::RenewItem> there;
    std::vector<std::size_t> places;
    for (std::size_t at = 0; at < items.size(); ++at) {
      if (gate_->is_local(items[at].id)) {
        loop_->post([gate = gate_, item = items[at], deadline, at, answer_one] {
          if (gate->closed()) return answer_one(at, closed_error());
          gate->beat(item, deadline, [at, answer_one](Result<AcquisitionState> state) {
            answer_one(at, std::move(state));
          });
        });
      } else {
        there.push_back(std::move(items[at]));
        places.push_back(at);
      }
    }
    if (there.empty()) return;
    arbiter_->renew(there, deadline,
                    [gate = gate_, there, places, answer_one](const Result<States>& told) {
                      for (std::size_t i = 0; i < there.size(); ++i) {
                        const Result<AcquisitionState> one = told ? (*told)[i] : told.error();
                        answer_one(places[i], gate->renewed(there[i], one));
                      }
                    });
  }

  void give_up_renewal() noexcept override { arbiter_->give_up_renewal(); }

  void release(port::AcquisitionRequest request, Done<EndStatus> done) override {
    end(std::move(request), /*release=*/true, std::move(done));
  }
  void cancel(port::AcquisitionRequest request, Done<EndStatus> done) override {
    end(std::move(request), /*release=*/false, std::move(done));
  }

  // There are exclusive locks only: what is held cannot be weakened, and anything else is gone.
  void downgrade(port::AcquisitionRequest request, Done<AcquisitionState> done) override {
    run(std::move(done), [request = std::move(request)](Gate& gate, auto answer) {
      if (gate.issue_of(request.name, request.id) == 0) {
        return answer(AcquisitionState{.status = port::AcquisitionStatus::kGone});
      }
      answer(unsupported());
    });
  }

  void inspect(std::string name, BootInstant deadline,
               Done<std::optional<LockInfo>> done) override {
    arbiter_->inspect(std::move(name), deadline, std::move(done));
  }

  void list(std::string prefix, std::size_t limit, BootInstant deadline,
            Done<std::vector<LockInfo>> done) override {
    arbiter_->list(std::move(prefix), limit, deadline, std::move(done));
  }

  void break_lock(port::BreakRequest request, Done<bool> done) override {
    run(std::move(done),
        [request = std::move(request), arbiter = arbiter_.get()](Gate& gate, auto answer) mutable {
          gate.forget(request.name);
          arbiter->break_lock(std::move(request), std::move(answer));
        });
  }

  // The filter's own problems cost speed: they are warnings here.
  void probe(BootInstant deadline, Done<std::vector<Finding>> done) override {
    run(std::move(done),
        [deadline, arbiter = arbiter_.get(), filter = filter_](Gate&, auto answer) {
          filter->probe(
              deadline, [deadline, arbiter, answer](const Result<std::vector<Finding>>& filters) {
                arbiter->probe(deadline, [filters, answer](Result<std::vector<Finding>> findings) {
                  if (findings) add_filters(filters, *findings);
                  answer(std::move(findings));
                });
              });
        });
  }

  void set_value(port::AcquisitionRequest holder, std::string value, Done<bool> done) override {
    run(std::move(done), [holder = std::move(holder), value = std::move(value),
                          arbiter = arbiter_.get()](Gate& gate, auto answer) mutable {
      holder.issue = gate.issue_of(holder.name, holder.id);
      arbiter->set_value(std::move(holder), std::move(value), std::move(answer));
    });
  }

  void keep(port::KeepRequest request, Done<bool> done) override {
    if (arbiters_.ends_with_client) return arbiter_->keep(std::move(request), std::move(done));
    run(std::move(done), [request = std::move(request), arbiter = arbiter_.get(), gate = gate_](
                             Gate&, auto answer) mutable {
      const auto name = request.name;
      const auto id = request.id;
      arbiter->keep(std::move(request), [gate, name, id, answer](const Result<bool>& kept) {
        if (kept && !gate->closed()) gate->kept(name, id);
        answer(kept);
      });
    });
  }

  void get_value(std::string name, BootInstant deadline, Done<std::string> done) override {
    arbiter_->get_value(std::move(name), deadline, std::move(done));
  }

  port::WatchHandle watch_value(std::string name, port::Task changed) override {
    return arbiter_->watch_value(std::move(name), std::move(changed));
  }

  void resize(port::AcquisitionRequest, std::uint32_t, Done<bool> done) override {
    run(std::move(done), [](Gate&, auto answer) { answer(unsupported()); });
  }

  void close(BootInstant deadline) override {
    if (gone_.exchange(true)) return;
    std::promise<void> stopped;
    auto waiting = stopped.get_future();
    loop_->post([gate = gate_, filter = filter_, &stopped] {
      gate->close();
      filter->stop();
      stopped.set_value();
    });
    waiting.wait();
    arbiter_->close(std::max(deadline, base::BootClock::now()));
    filter_->close();
  }

  void abandon_after_fork() noexcept override {
    gone_ = true;
    arbiter_->abandon_after_fork();
    filter_->abandon_after_fork();
    base::abandon(gate_);
    base::abandon(filter_);
    static_cast<void>(arbiter_.release());
  }

 private:
  static Error unsupported() {
    return {Errc::kUnsupported,
            "a hybrid store has exclusive locks only: ask the arbiter's own store for others"};
  }

  static void add_filters(const Result<std::vector<Finding>>& filters,
                          std::vector<Finding>& findings) {
    if (!filters) {
      findings.push_back({Severity::kWarning, "filter",
                          "it takes no load off the arbiter: " + filters.error().message(),
                          "start it again, or look at its own 'holdfast doctor'"});
      return;
    }
    for (const Finding& each : *filters) {
      const bool problem = each.severity == Severity::kProblem;
      findings.push_back({problem ? Severity::kWarning : each.severity, "filter: " + each.topic,
                          each.what, each.advice});
    }
  }

  void end(port::AcquisitionRequest request, bool release, Done<EndStatus> done) {
    run(std::move(done), [request = std::move(request), release](Gate& gate, auto answer) {
      gate.end(request, release, std::move(answer));
    });
  }

  template <typename T, typename Work>
  void run(Done<T> done, Work work) {
    loop_->post([gate = gate_, done = std::move(done), work = std::move(work)]() mutable {
      if (gate->closed()) return done(closed_error());
      work(*gate, std::move(done));
    });
  }

  port::Loop* const loop_;
  const std::shared_ptr<Gate> gate_;
  std::unique_ptr<port::Store> arbiter_;
  const std::shared_ptr<Filter> filter_;
  const Guarantees arbiters_;
  std::atomic<bool> gone_{false};
};

Result<port::StoreFactory> factory_of(const port::StoreUrl& url, const port::StoreContext& context,
                                      port::StoreFactory instead) {
  if (instead != nullptr) return instead;
  if (context.find == nullptr) {
    return Error(Errc::kUnsupported, "hybrid store: this program knows no other stores");
  }
  return context.find(url.scheme);
}

}  // namespace

Result<std::unique_ptr<port::Store>> make_hybrid_store(port::StoreUrl url,
                                                       const port::StoreContext& context) {
  return make_hybrid_store_for_test(std::move(url), context, {});
}

Result<std::unique_ptr<port::Store>> make_hybrid_store_for_test(port::StoreUrl url,
                                                                const port::StoreContext& context,
                                                                HybridTuning tuning) {
  auto address = hybrid::parse_hybrid_url(std::move(url));
  if (!address) return address.error();
  const auto filters = factory_of(address->filter, context, tuning.filter);
  if (!filters) return filters.error();
  const auto arbiters = factory_of(address->arbiter, context, tuning.arbiter);
  if (!arbiters) return arbiters.error();
  auto gate = std::make_shared<Gate>(
      context, Gate::Settings{address->patience, address->recheck,
                              tuning.now ? std::move(tuning.now) : &boot_now});
  port::StoreContext inner = context;
  inner.listener = gate.get();
  auto arbiter = (*arbiters)(std::move(address->arbiter), inner);
  if (!arbiter) return arbiter.error();
  auto filter =
      std::make_shared<Filter>(*filters, std::move(address->filter), context,
                               Filter::Settings{address->filter_timeout, address->filter_lease});
  auto store = std::make_unique<HybridStore>(context, std::move(gate), *std::move(arbiter), filter);
  if (auto opened = filter->open(); !opened) return opened.error();
  return std::unique_ptr<port::Store>(std::move(store));
}

}  // namespace holdfast::stores
