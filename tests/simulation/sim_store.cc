#include "tests/simulation/sim_store.h"

#include <map>
#include <utility>

#include "src/stores/memory/memory_store.h"

namespace holdfast::simulation {
namespace {

using port::Done;

// The store's side of the network: what it says is put into an envelope at once.
class Counter final : public port::Loop {
 public:
  void post(port::Task task) override { task(); }
};

class PushSender final : public port::Listener {
 public:
  PushSender(World& world, Process& process, port::Listener& to)
      : world_(world), process_(process), to_(to) {}
  void on_push(const port::Push& push) override {
    if (world_.loses && world_.percent(20)) return;
    const bool late = world_.loses && world_.percent(5);
    world_.after(late ? world_.upto(5s) : world_.upto(5ms), [this, push] {
      if (gone_) return;
      process_.post(Process::kLoop, [this, push] { to_.on_push(push); });
    });
  }
  void leave() { gone_ = true; }

 private:
  World& world_;
  Process& process_;
  port::Listener& to_;
  bool gone_ = false;
};

class SimStore final : public port::Store {
 public:
  SimStore(const Site& site, const port::StoreContext& context)
      : world_(World::get()),
        process_(*world_.running),
        site_(site),
        sender_(std::make_shared<PushSender>(world_, process_, *context.listener)) {
    port::StoreContext inner = context;
    inner.loop = &counter_;
    inner.listener = sender_.get();
    inner_ = stores::make_memory_store_for_test(site.hub, inner);
  }

  Guarantees guarantees() const override {
    Guarantees promised = inner_->guarantees();
    promised.multi = site_.multi;
    return promised;
  }

  void acquire(port::AcquireRequest request, Done<port::AcquisitionState> done) override {
    send<port::AcquisitionState>(
        request.deadline, kRepeats,
        [this, request](Done<port::AcquisitionState> answer) {
          inner_->acquire(request, std::move(answer));
        },
        std::move(done));
  }
  void renew(std::vector<port::RenewItem> items, base::BootInstant deadline,
             Done<std::vector<Result<port::AcquisitionState>>> done) override {
    using States = std::vector<Result<port::AcquisitionState>>;
    send<States>(
        deadline, kRepeats,
        [this, items, deadline](const Done<States>& answer) {
          inner_->renew(items, deadline, [this, items, answer](Result<States> states) {
            note_extended(items, *states);
            answer(std::move(states));
          });
        },
        std::move(done));
  }
  void release(port::AcquisitionRequest request, Done<port::EndStatus> done) override {
    send<port::EndStatus>(
        request.deadline, kRepeats,
        [this, request](Done<port::EndStatus> answer) {
          inner_->release(request, std::move(answer));
        },
        std::move(done));
  }
  void cancel(port::AcquisitionRequest request, Done<port::EndStatus> done) override {
    send<port::EndStatus>(
        request.deadline, kRepeats,
        [this, request](Done<port::EndStatus> answer) {
          inner_->cancel(request, std::move(answer));
        },
        std::move(done));
  }
  void downgrade(port::AcquisitionRequest request, Done<port::AcquisitionState> done) override {
    send<port::AcquisitionState>(
        request.deadline, kOnce,
        [this, request](Done<port::AcquisitionState> answer) {
          inner_->downgrade(request, std::move(answer));
        },
        std::move(done));
  }
  void inspect(std::string name, base::BootInstant deadline,
               Done<std::optional<LockInfo>> done) override {
    send<std::optional<LockInfo>>(
        deadline, kOnce,
        [this, name, deadline](Done<std::optional<LockInfo>> answer) {
          inner_->inspect(name, deadline, std::move(answer));
        },
        std::move(done));
  }
  void list(std::string prefix, std::size_t limit, base::BootInstant deadline,
            Done<std::vector<LockInfo>> done) override {
    send<std::vector<LockInfo>>(
        deadline, kOnce,
        [this, prefix, limit, deadline](Done<std::vector<LockInfo>> answer) {
          inner_->list(prefix, limit, deadline, std::move(answer));
        },
        std::move(done));
  }
  void break_lock(port::BreakRequest request, Done<bool> done) override {
    send<bool>(
        request.deadline, kOnce,
        [this, request](Done<bool> answer) { inner_->break_lock(request, std::move(answer)); },
        std::move(done));
  }
  void probe(base::BootInstant, Done<std::vector<Finding>> done) override {
    done(Error(Errc::kUnsupported, "not simulated"));
  }
  void set_value(port::AcquisitionRequest holder, std::string value, Done<bool> done) override {
    send<bool>(
        holder.deadline, kOnce,
        [this, holder, value](Done<bool> answer) {
          inner_->set_value(holder, value, std::move(answer));
        },
        std::move(done));
  }
  void keep(port::KeepRequest request, Done<bool> done) override {
    send<bool>(
        request.deadline, kRepeats,
        [this, request](Done<bool> answer) { inner_->keep(request, std::move(answer)); },
        std::move(done));
  }
  void get_value(std::string name, base::BootInstant deadline, Done<std::string> done) override {
    send<std::string>(
        deadline, kOnce,
        [this, name, deadline](Done<std::string> answer) {
          inner_->get_value(name, deadline, std::move(answer));
        },
        std::move(done));
  }
  port::WatchHandle watch_value(std::string name, port::Task changed) override {
    return inner_->watch_value(std::move(name), [this, changed = std::move(changed)] {
      if (world_.loses && world_.percent(20)) return;
      world_.after(world_.upto(5ms), [this, changed] {
        if (!world_.closing) process_.post(Process::kLoop, changed);
      });
    });
  }
  void resize(port::AcquisitionRequest request, std::uint32_t capacity, Done<bool> done) override {
    send<bool>(
        request.deadline, kOnce,
        [this, request, capacity](Done<bool> answer) {
          inner_->resize(request, capacity, std::move(answer));
        },
        std::move(done));
  }
  void try_acquire_all(std::vector<port::AcquireRequest> requests, Done<Grants> done) override {
    const base::BootInstant deadline = requests.front().deadline;
    send<Grants>(
        deadline, kOnce,
        [this, requests](Done<Grants> answer) {
          inner_->try_acquire_all(requests, std::move(answer));
        },
        std::move(done));
  }
  void release_all(std::vector<port::AcquisitionRequest> requests,
                   Done<std::vector<Result<port::EndStatus>>> done) override {
    const base::BootInstant deadline = requests.front().deadline;
    using Ends = std::vector<Result<port::EndStatus>>;
    send<Ends>(
        deadline, kOnce,
        [this, requests](Done<Ends> answer) { inner_->release_all(requests, std::move(answer)); },
        std::move(done));
  }

  void close(base::BootInstant) override {
    closed_ = true;
    sender_->leave();
    while (!open_.empty()) {
      const auto first = open_.extract(open_.begin());
      first.mapped()();
    }
    process_.drain_all();
  }
  void abandon_after_fork() noexcept override {}

 private:
  enum Repeats { kOnce, kRepeats };

  Nanos delay() { return world_.loses && world_.percent(3) ? world_.upto(3s) : world_.upto(5ms); }

  template <typename T>
  void send(base::BootInstant deadline, Repeats repeats, std::function<void(Done<T>)> deliver,
            Done<T> done) {
    const std::uint64_t id = ++requests_;
    auto kept = std::make_shared<Done<T>>(std::move(done));  // Until it is told.
    auto answer = [this, id, kept](const std::shared_ptr<Result<T>>& result) {
      if (!*kept) return;
      open_.erase(id);
      process_.post(Process::kLoop,
                    [tell = std::exchange(*kept, nullptr), result] { tell(std::move(*result)); });
    };
    const auto fail = [answer](Errc code) {
      answer(std::make_shared<Result<T>>(Error(code, "simulated")));
    };
    if (closed_ || world_.closing) return fail(Errc::kClosed);
    open_[id] = [fail] { fail(Errc::kClosed); };
    if (world_.loses && world_.percent(2)) {
      return world_.after(world_.upto(5ms), [fail] { fail(Errc::kUnavailable); });
    }
    world_.at(process_.to_true(deadline), [fail] { fail(Errc::kOutcomeUnknown); });
    if (repeats == kRepeats && world_.loses && world_.percent(3)) {
      world_.after(world_.upto(5s), [deliver, this] {
        if (!world_.closing) deliver([](const Result<T>&) {});
      });
    }
    arrives_ = std::max(arrives_, world_.now + delay());
    if (world_.loses && world_.percent(4)) return;
    world_.at(arrives_, [this, deliver, answer] {
      if (world_.closing) return;
      deliver([this, answer](Result<T> result) {
        if (world_.loses && world_.percent(4)) return;
        world_.after(delay(), [answer, reply = std::make_shared<Result<T>>(std::move(result))] {
          answer(reply);
        });
      });
    });
  }

  void note_extended(const std::vector<port::RenewItem>& items,
                     const std::vector<Result<port::AcquisitionState>>& states) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!states[i] || states[i]->status != port::AcquisitionStatus::kHeld) continue;
      site_.on_extended(items[i].name, states[i]->token, world_.now + states[i]->lease);
    }
  }

  World& world_;
  Process& process_;
  const Site& site_;
  Counter counter_;
  std::shared_ptr<PushSender> sender_;
  std::unique_ptr<port::Store> inner_;
  std::map<std::uint64_t, Task> open_;
  std::uint64_t requests_ = 0;
  Nanos arrives_{};
  bool closed_ = false;
};

}  // namespace

std::shared_ptr<stores::InProcessHub> make_hub(World& world) {
  stores::MemoryTuning tuning;
  tuning.now = [&world] {
    return machine::Instant(std::chrono::floor<machine::Duration>(world.now + 1h));
  };
  tuning.floor = {0, 1000};
  tuning.tombstone = 30s;
  return stores::make_memory_hub_for_test(std::move(tuning));
}

std::unique_ptr<port::Store> make_sim_store(const Site& site, const port::StoreContext& context) {
  return std::make_unique<SimStore>(site, context);
}

}  // namespace holdfast::simulation
