#include "src/stores/failover/failover_store.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/abandon.h"
#include "src/stores/failover/acquisitions.h"
#include "src/stores/failover/guarantees.h"
#include "src/stores/failover/keeper.h"
#include "src/stores/failover/url.h"

namespace holdfast::stores {
namespace {

using base::BootInstant;
using failover::Acquisitions;
using failover::closed_error;
using failover::Keeper;
using port::AcquisitionState;
using port::Done;
using port::EndStatus;

Error no_values() {
  return {Errc::kUnsupported, "a fail-over chain has no values: a switch would forget them"};
}

// The pushes of one store of the chain.
class PushRelay final : public port::Listener {
 public:
  PushRelay(std::uint32_t place, port::Listener* outer) : place_(place), outer_(outer) {}
  void hear_for(const std::shared_ptr<Acquisitions>& acquisitions) { acquisitions_ = acquisitions; }

 private:
  void on_push(const port::Push& push) override {
    if (const auto all = acquisitions_.lock()) all->on_push(place_, push);
  }
  void on_pushes_missed() override { outer_->on_pushes_missed(); }
  void on_pushes_begin() override { outer_->on_pushes_begin(); }
  void on_alarm(const std::string& line) override { outer_->on_alarm(line); }
  void on_watches_blind(const Error& why) override { outer_->on_watches_blind(why); }

  const std::uint32_t place_;
  port::Listener* const outer_;
  std::weak_ptr<Acquisitions> acquisitions_;
};

class FailoverStore final : public port::Store {
 public:
  FailoverStore(const port::StoreContext& context, const failover::ChainAddress& address,
                std::vector<Keeper::Link> chain)
      : loop_(context.loop), authority_(address.authority), ears_(chain.size()) {
    for (std::uint32_t place = 0; place < chain.size(); ++place) {
      ears_[place] = std::make_shared<PushRelay>(place, context.listener);
    }
    Keeper::Settings settings{address.identity,
                              address.authority,
                              address.patience,
                              address.settled,
                              [this](std::uint32_t place) { return ears_[place].get(); },
                              [this] { acquisitions_->on_changed(); }};
    keeper_ = std::make_shared<Keeper>(std::move(chain), context, std::move(settings));
    acquisitions_ = std::make_shared<Acquisitions>(context, *keeper_, authority_);
    for (const auto& ear : ears_) ear->hear_for(acquisitions_);
  }
  ~FailoverStore() override {
    if (!gone_) close({});
  }

  Result<void> open(port::ChainJob* job) {
    if (auto connected = keeper_->connect(); !connected || job != nullptr) {
      return connected ? do_job(*job) : connected;
    }
    keeper_->start();
    // A chain that is in use answers within some round trips; any other goes on by itself.
    const auto until = base::BootClock::now() + std::chrono::seconds(2);
    while (!keeper_->use() && base::BootClock::now() < until) {
      const auto record = keeper_->record();
      if (record && record->draining) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return {};
  }

  Guarantees guarantees() const override { return failover::guarantees(authority_); }

  void acquire(port::AcquireRequest request, Done<AcquisitionState> done) override {
    run(std::move(done), [request = std::move(request)](Acquisitions& all, auto answer) mutable {
      all.acquire(std::move(request), std::move(answer));
    });
  }
  std::optional<Result<AcquisitionState>> acquire_inline(
      const port::AcquireRequest& request) override {
    return acquisitions_->acquire_here(request);
  }
  std::optional<Result<EndStatus>> release_inline(
      const port::AcquisitionRequest& request) override {
    return acquisitions_->release_here(request);
  }
  void renew(std::vector<port::RenewItem> items, BootInstant deadline,
             Done<Acquisitions::States> done) override {
    if (gone_) return loop_->post([done = std::move(done)] { done(closed_error()); });
    acquisitions_->renew(std::move(items), deadline, std::move(done));
  }
  void release(port::AcquisitionRequest request, Done<EndStatus> done) override {
    run(std::move(done), [request = std::move(request)](Acquisitions& all, auto answer) {
      all.end(request, /*release=*/true, std::move(answer));
    });
  }
  void cancel(port::AcquisitionRequest request, Done<EndStatus> done) override {
    run(std::move(done), [request = std::move(request)](Acquisitions& all, auto answer) {
      all.end(request, /*release=*/false, std::move(answer));
    });
  }
  void downgrade(port::AcquisitionRequest request, Done<AcquisitionState> done) override {
    run(std::move(done), [request = std::move(request)](Acquisitions& all, auto answer) {
      all.downgrade(request, std::move(answer));
    });
  }
  void resize(port::AcquisitionRequest request, std::uint32_t capacity, Done<bool> done) override {
    run(std::move(done), [request = std::move(request), capacity](Acquisitions& all, auto answer) {
      all.resize(request, capacity, std::move(answer));
    });
  }

  void inspect(std::string name, BootInstant deadline,
               Done<std::optional<LockInfo>> done) override {
    with_store(std::move(done), [name = std::move(name), deadline](const Keeper::Use& use,
                                                                   auto answer) {
      use.store->inspect(failover::stored_name(name, use.epoch), deadline,
                         [epoch = use.epoch, name, answer](Result<std::optional<LockInfo>> info) {
                           if (info && *info) in_epoch(**info, name, epoch);
                           answer(std::move(info));
                         });
    });
  }
  void list(std::string prefix, std::size_t limit, BootInstant deadline,
            Done<std::vector<LockInfo>> done) override {
    with_store(std::move(done), [prefix = std::move(prefix), limit, deadline](
                                    const Keeper::Use& use, auto answer) {
      // Locks of other epochs are left out afterwards.
      const std::size_t most = limit + std::max<std::size_t>(limit, 1000);
      use.store->list(
          prefix, most, deadline,
          [epoch = use.epoch, limit, prefix, answer](Result<std::vector<LockInfo>> locks) {
            if (!locks) return answer(locks);
            std::vector<LockInfo> ours;
            for (LockInfo& each : *locks) {
              const auto name = failover::shown_name(each.name, epoch);
              if (!name || !name->starts_with(prefix)) continue;
              in_epoch(each, *name, epoch);
              ours.push_back(std::move(each));
            }
            std::sort(ours.begin(), ours.end(),
                      [](const auto& a, const auto& b) { return a.name < b.name; });
            if (ours.size() > limit) ours.resize(limit);
            answer(std::move(ours));
          });
    });
  }
  void break_lock(port::BreakRequest request, Done<bool> done) override {
    with_store(std::move(done), [request = std::move(request)](const Keeper::Use& use,
                                                               auto answer) mutable {
      if (request.token.epoch != use.epoch) {
        return answer(Error(Errc::kLost, "no holder of lock '" + request.name +
                                             "' has that token: it is of another epoch"));
      }
      request.name = failover::stored_name(request.name, use.epoch);
      request.token.epoch = 0;
      use.store->break_lock(std::move(request), std::move(answer));
    });
  }
  void probe(BootInstant deadline, Done<std::vector<Finding>> done) override {
    run(std::move(done), [keeper = keeper_, deadline](Acquisitions&, auto answer) {
      std::vector<Finding> found = state_of_chain(*keeper);
      const auto use = keeper->use();
      if (!use) return answer(std::move(found));
      use->store->probe(deadline, [found, answer](const Result<std::vector<Finding>>& more) {
        auto all = found;
        if (more) all.insert(all.end(), more->begin(), more->end());
        answer(std::move(all));
      });
    });
  }

  void set_value(port::AcquisitionRequest, std::string, Done<bool> done) override {
    run(std::move(done), [](Acquisitions&, auto answer) { answer(no_values()); });
  }
  void get_value(std::string, BootInstant, Done<std::string> done) override {
    run(std::move(done), [](Acquisitions&, auto answer) { answer(no_values()); });
  }

  void close(BootInstant deadline) override {
    if (gone_.exchange(true)) return;
    std::promise<void> stopped;
    auto waiting = stopped.get_future();
    loop_->post([all = acquisitions_, &stopped] {
      all->close();
      stopped.set_value();
    });
    waiting.wait();
    keeper_->close(deadline);
  }
  void abandon_after_fork() noexcept override {
    gone_ = true;
    keeper_->abandon_after_fork();
    base::abandon(keeper_);
    base::abandon(acquisitions_);
  }

 private:
  // The state of the chain, or a switch, for an operator.
  Result<void> do_job(port::ChainJob& job) {
    const auto seen = keeper_->look();
    if (!seen) return seen.error();
    describe(*seen, job.found);
    if (!job.switch_to) return {};
    if (*job.switch_to > keeper_->size()) {
      return Error(Errc::kInvalidArgument, "the chain has no store number " +
                                               std::to_string(*job.switch_to) + ", only 1 to " +
                                               std::to_string(keeper_->size()));
    }
    const std::uint32_t active = *seen ? (*seen)->active : 0;
    const std::uint32_t size = static_cast<std::uint32_t>(keeper_->size());
    const std::uint32_t wanted = *job.switch_to == 0 ? (active + 1) % size : *job.switch_to - 1;
    if (*seen && !(*seen)->draining && active == wanted) return {};
    const std::string number = std::to_string(wanted + 1);
    // A drain takes all locks away, so it should not be in vain.
    if (const auto usable = keeper_->try_out(wanted, *seen); !usable) {
      return Error(usable.error().code(), "nothing was switched, because store " + number +
                                              " cannot be used: " + usable.error().message());
    }
    keeper_->order(wanted);
    keeper_->start();
    const std::uint32_t before = *seen ? (*seen)->epoch : 0;
    const auto until = base::BootClock::now() + authority_ * 8 + std::chrono::seconds(20);
    while (base::BootClock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const auto now = keeper_->record();
      describe(now, job.found);
      if (!now || now->draining || now->epoch <= before || !keeper_->use()) continue;
      if (now->active == wanted) return {};
      return Error(Errc::kUnavailable, "store " + number +
                                           " could not be used any more, so store " +
                                           std::to_string(now->active + 1) + " is");
    }
    return Error(Errc::kTimedOut,
                 "the chain was not switched in time: " + keeper_->why_not().message());
  }
  void describe(const std::optional<failover::ChainRecord>& record, ChainStatus& found) const {
    const std::uint32_t active = record ? record->active : 0;
    found.place = active + 1;
    found.stores = static_cast<std::uint32_t>(keeper_->size());
    found.store = keeper_->shown(active);
    found.epoch = record ? record->epoch : 0;
    found.draining = record && record->draining;
  }

  static holdfast::Token in_epoch(holdfast::Token token, std::uint32_t epoch) {
    return token == holdfast::Token{} ? token : holdfast::Token{epoch, token.counter};
  }
  static void in_epoch(LockInfo& lock, const std::string& name, std::uint32_t epoch) {
    lock.name = name;
    lock.last_token = in_epoch(lock.last_token, epoch);
    for (HolderInfo& each : lock.holders) each.token = in_epoch(each.token, epoch);
    if (lock.last_break) lock.last_break->token = in_epoch(lock.last_break->token, epoch);
  }

  static std::vector<Finding> state_of_chain(const Keeper& keeper) {
    std::vector<Finding> found;
    const auto record = keeper.record();
    if (!keeper.use()) {
      found.push_back({Severity::kProblem, "chain", keeper.why_not().message(),
                       "look at 'holdfast failover status'"});
    } else if (record) {
      found.push_back(
          {Severity::kOk, "chain",
           keeper.shown(record->active) + " is used, in epoch " + std::to_string(record->epoch),
           ""});
      if (record->active != 0) {
        found.push_back({Severity::kWarning, "chain", "it is not the first store of the chain",
                         "when that one is well again: holdfast failover return"});
      }
    }
    return found;
  }

  template <typename T, typename Work>
  void run(Done<T> done, Work work) {
    loop_->post([all = acquisitions_, done = std::move(done), work = std::move(work)]() mutable {
      if (all->closed()) return done(closed_error());
      work(*all, std::move(done));
    });
  }
  template <typename T, typename Work>
  void with_store(Done<T> done, Work work) {
    run(std::move(done),
        [keeper = keeper_, work = std::move(work)](Acquisitions&, auto answer) mutable {
          const auto use = keeper->use();
          if (!use) return answer(keeper->why_not());
          work(*use, std::move(answer));
        });
  }

  port::Loop* const loop_;
  const std::chrono::milliseconds authority_;
  std::vector<std::shared_ptr<PushRelay>> ears_;
  std::shared_ptr<Keeper> keeper_;
  std::shared_ptr<Acquisitions> acquisitions_;
  std::atomic<bool> gone_{false};
};

}  // namespace

Result<std::unique_ptr<port::Store>> make_failover_store(port::StoreUrl url,
                                                         const port::StoreContext& context) {
  return make_failover_store_for_test(std::move(url), context, {});
}

Result<std::unique_ptr<port::Store>> make_failover_store_for_test(port::StoreUrl url,
                                                                  const port::StoreContext& context,
                                                                  FailoverTuning tuning) {
  auto address = failover::parse_chain_url(std::move(url));
  if (!address) return address.error();
  std::vector<Keeper::Link> chain;
  for (std::size_t place = 0; place < address->chain.size(); ++place) {
    Keeper::Link link{nullptr, address->chain[place]};
    if (place < tuning.chain.size()) {
      link.factory = tuning.chain[place];
    } else {
      if (context.find == nullptr) {
        return Error(Errc::kUnsupported, "failover store: this program knows no other stores");
      }
      const auto factory = context.find(link.url.scheme);
      if (!factory) return factory.error();
      link.factory = *factory;
    }
    chain.push_back(std::move(link));
  }
  auto store = std::make_unique<FailoverStore>(context, *address, std::move(chain));
  if (auto opened = store->open(context.chain); !opened) return opened.error();
  if (context.chain != nullptr) return std::unique_ptr<port::Store>();
  return std::unique_ptr<port::Store>(std::move(store));
}

}  // namespace holdfast::stores
