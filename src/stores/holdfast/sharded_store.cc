#include "src/stores/holdfast/sharded_store.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "src/base/abandon.h"
#include "src/port/service/shards.h"
#include "src/stores/holdfast/shard_renewals.h"

namespace holdfast::stores::holdfast {
namespace {

using base::BootInstant;
using port::AcquireRequest;
using port::AcquisitionRequest;
using port::AcquisitionState;
using port::Done;
using port::EndStatus;
using States = std::vector<Result<AcquisitionState>>;

// The answers of all shards, which come on the loop, one at a time.
template <typename T>
struct Gathered {
  std::vector<Result<T>> answers;
  std::size_t left = 0;
};

Error of_shard(std::size_t shard, const Error& error) {
  return {error.code(), "shard " + std::to_string(shard) + ": " + error.message()};
}

std::vector<Finding> joined(const std::vector<std::vector<Finding>>& found) {
  std::vector<Finding> all;
  for (std::size_t shard = 0; shard < found.size(); ++shard) {
    for (Finding each : found[shard]) {
      const bool of_this = each.topic == "server" || each.topic == "restore";
      const bool known = std::any_of(all.begin(), all.end(), [&](const Finding& other) {
        return other.topic == each.topic && other.severity == each.severity;
      });
      if (known && !of_this) continue;
      if (each.topic == "server") each.what = "shard " + std::to_string(shard) + ": " + each.what;
      all.push_back(std::move(each));
    }
  }
  return all;
}

class ShardedStore final : public port::Store {
 public:
  ShardedStore(std::vector<ServiceShard> shards, port::Listener& listener)
      : listener_(listener),
        shards_(stores_of(shards)),
        renewals_(std::make_shared<ShardRenewals>(shards_)) {
    for (ServiceShard& each : shards) watches_.push_back(std::move(each.watch));
  }

  Guarantees guarantees() const override {
    Guarantees result = shards_.front()->guarantees();
    result.multi = false;
    return result;
  }

  // --- Of one lock.
  void acquire(AcquireRequest request, Done<AcquisitionState> done) override {
    port::Store& shard = of(request.name);
    shard.acquire(std::move(request), std::move(done));
  }
  void release(AcquisitionRequest request, Done<EndStatus> done) override {
    port::Store& shard = of(request.name);
    shard.release(std::move(request), std::move(done));
  }
  void cancel(AcquisitionRequest request, Done<EndStatus> done) override {
    port::Store& shard = of(request.name);
    shard.cancel(std::move(request), std::move(done));
  }
  void downgrade(AcquisitionRequest request, Done<AcquisitionState> done) override {
    port::Store& shard = of(request.name);
    shard.downgrade(std::move(request), std::move(done));
  }
  void inspect(std::string name, BootInstant deadline,
               Done<std::optional<LockInfo>> done) override {
    port::Store& shard = of(name);
    shard.inspect(std::move(name), deadline, std::move(done));
  }
  void break_lock(port::BreakRequest request, Done<bool> done) override {
    port::Store& shard = of(request.name);
    shard.break_lock(std::move(request), std::move(done));
  }
  void set_value(AcquisitionRequest holder, std::string value, Done<bool> done) override {
    port::Store& shard = of(holder.name);
    shard.set_value(std::move(holder), std::move(value), std::move(done));
  }
  void keep(port::KeepRequest request, Done<bool> done) override {
    port::Store& shard = of(request.name);
    shard.keep(std::move(request), std::move(done));
  }
  void get_value(std::string name, BootInstant deadline, Done<std::string> done) override {
    port::Store& shard = of(name);
    shard.get_value(std::move(name), deadline, std::move(done));
  }
  port::WatchHandle watch_value(std::string name, port::Task changed) override {
    port::Store& shard = of(name);
    return shard.watch_value(std::move(name), std::move(changed));
  }
  void resize(AcquisitionRequest request, std::uint32_t capacity, Done<bool> done) override {
    port::Store& shard = of(request.name);
    shard.resize(std::move(request), capacity, std::move(done));
  }
  std::optional<Result<AcquisitionState>> acquire_inline(const AcquireRequest& request) override {
    return of(request.name).acquire_inline(request);
  }
  std::optional<Result<EndStatus>> release_inline(const AcquisitionRequest& request) override {
    return of(request.name).release_inline(request);
  }
  void acquire_and_read(AcquireRequest request, std::string beside,
                        Done<StateAndValue> done) override {
    port::Store& shard = of(request.name);
    if (&shard == &of(beside)) {
      return shard.acquire_and_read(std::move(request), std::move(beside), std::move(done));
    }
    Store::acquire_and_read(std::move(request), std::move(beside), std::move(done));
  }

  // --- Of all of them.
  void renew(std::vector<port::RenewItem> items, BootInstant deadline, Done<States> done) override;
  std::uint32_t renewal_group(std::string_view name) const override { return number_of(name); }
  void list(std::string prefix, std::size_t limit, BootInstant deadline,
            Done<std::vector<LockInfo>> done) override;
  void watch(std::string prefix, port::EventSink sink, BootInstant deadline,
             Done<port::WatchHandle> done) override;
  void probe(BootInstant deadline, Done<std::vector<Finding>> done) override;
  void close(BootInstant deadline) override {
    for (const auto& each : shards_) each->close(deadline);
    renewals_->stop();
  }
  void abandon_after_fork() noexcept override {
    base::abandon(std::move(renewals_));
    for (const auto& each : shards_) each->abandon_after_fork();
  }

 private:
  std::uint32_t number_of(std::string_view name) const {
    return port::shard_of(name, static_cast<std::uint32_t>(shards_.size()));
  }
  port::Store& of(std::string_view name) { return *shards_[number_of(name)]; }

  static std::vector<std::unique_ptr<port::Store>> stores_of(std::vector<ServiceShard>& shards) {
    std::vector<std::unique_ptr<port::Store>> stores;
    for (ServiceShard& each : shards) stores.push_back(std::move(each.store));
    return stores;
  }

  // Calls `ask` for each shard, and `done` with the answers in their order.
  template <typename T, typename Ask, typename Gather>
  void ask_all(const Ask& ask, Gather done) {
    auto gathered = std::make_shared<Gathered<T>>();
    gathered->answers.assign(shards_.size(), Error(Errc::kUnavailable, ""));
    gathered->left = shards_.size();
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      ask(i, [gathered, i, done](Result<T> answer) {
        gathered->answers[i] = std::move(answer);
        if (--gathered->left == 0) done(std::move(gathered->answers));
      });
    }
  }

  // The answers of the shards that have one, unless none has. `lack` says what the others leave
  // out.
  template <typename T>
  Result<std::vector<T>> some_of(std::vector<Result<T>> all, const std::string& lack) const {
    std::vector<T> good;
    std::vector<Error> bad;
    for (std::size_t shard = 0; shard < all.size(); ++shard) {
      Result<T>& each = all[shard];
      each ? good.push_back(*std::move(each)) : bad.push_back(of_shard(shard, each.error()));
    }
    if (good.empty()) return bad.front();
    for (const Error& each : bad) listener_.on_alarm(each.message() + lack);
    return good;
  }

  port::Listener& listener_;
  const std::vector<std::unique_ptr<port::Store>> shards_;
  std::vector<decltype(ServiceShard::watch)> watches_;
  std::shared_ptr<ShardRenewals> renewals_;
};

// The session sends the renewals of each shard by themselves. Renewals that come together are
// answered together.
void ShardedStore::renew(std::vector<port::RenewItem> items, BootInstant deadline,
                         Done<States> done) {
  struct Part {
    std::vector<port::RenewItem> items{};
    std::vector<std::size_t> places{};  // In the whole.
  };
  if (items.empty()) return shards_.front()->renew(std::move(items), deadline, std::move(done));
  std::map<std::uint32_t, Part> parts;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Part& part = parts[number_of(items[i].name)];
    part.places.push_back(i);
    part.items.push_back(std::move(items[i]));
  }
  if (parts.size() == 1) {
    auto& [shard, part] = *parts.begin();
    return renewals_->renew(shard, std::move(part.items), deadline, std::move(done));
  }
  auto whole = std::make_shared<Gathered<AcquisitionState>>();
  whole->answers.assign(items.size(), AcquisitionState{});
  whole->left = parts.size();
  for (auto& [shard, part] : parts) {
    renewals_->renew(shard, std::move(part.items), deadline,
                     [whole, places = std::move(part.places), done](const Result<States>& states) {
                       for (std::size_t i = 0; i < places.size(); ++i) {
                         whole->answers[places[i]] =
                             states ? (*states)[i] : Result<AcquisitionState>(states.error());
                       }
                       if (--whole->left == 0) done(std::move(whole->answers));
                     });
  }
}

void ShardedStore::list(std::string prefix, std::size_t limit, BootInstant deadline,
                        Done<std::vector<LockInfo>> done) {
  using Locks = std::vector<LockInfo>;
  ask_all<Locks>(
      [&](std::size_t shard, Done<Locks> told) {
        shards_[shard]->list(prefix, limit, deadline, std::move(told));
      },
      [this, limit, done = std::move(done)](std::vector<Result<Locks>> answers) {
        auto found = some_of(std::move(answers), "; this list has none of its locks");
        if (!found) return done(found.error());
        Locks all;
        for (Locks& each : *found) std::move(each.begin(), each.end(), std::back_inserter(all));
        std::sort(all.begin(), all.end(),
                  [](const LockInfo& one, const LockInfo& other) { return one.name < other.name; });
        if (all.size() > limit) all.resize(limit);
        done(std::move(all));
      });
}

void ShardedStore::watch(std::string prefix, port::EventSink sink, BootInstant deadline,
                         Done<port::WatchHandle> done) {
  ask_all<BegunWatch>(
      [&](std::size_t shard, Done<BegunWatch> told) {
        watches_[shard](prefix, sink, deadline, std::move(told));
      },
      [this, done = std::move(done)](std::vector<Result<BegunWatch>> answers) {
        // Kept together with those that are confirmed, unless there is none.
        auto handles = std::make_shared<std::vector<port::WatchHandle>>();
        std::vector<Result<bool>> confirmed;
        for (const Result<BegunWatch>& each : answers) {
          if (each) handles->push_back(each->handle);
          const auto trouble = each ? each->unconfirmed : std::optional<Error>(each.error());
          confirmed.push_back(trouble ? Result<bool>(*trouble) : Result<bool>(true));
        }
        const auto some =
            some_of(std::move(confirmed), "; changes of its locks are missing until it answers");
        if (!some) return done(some.error());
        done(port::WatchHandle{handles});
      });
}

// A finding that all shards have is told once. A shard that does not answer is a finding itself,
// unless none does.
void ShardedStore::probe(BootInstant deadline, Done<std::vector<Finding>> done) {
  using Findings = std::vector<Finding>;
  ask_all<Findings>(
      [&](std::size_t shard, Done<Findings> told) {
        shards_[shard]->probe(deadline, std::move(told));
      },
      [done = std::move(done)](const std::vector<Result<Findings>>& answers) {
        std::vector<Findings> found;
        bool some = false;
        for (const Result<Findings>& each : answers) {
          some = some || each;
          found.push_back(
              each ? *each
                   : Findings{{Severity::kProblem, "server", each.error().message(),
                               "'holdfast server status' shows which server leads the shard"}});
        }
        some ? done(joined(found)) : done(answers.front().error());
      });
}

}  // namespace

std::unique_ptr<port::Store> make_sharded_store(std::vector<ServiceShard> shards,
                                                port::Listener& listener) {
  return std::make_unique<ShardedStore>(std::move(shards), listener);
}

}  // namespace holdfast::stores::holdfast
