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
  std::vector<T> answers;
  std::size_t left = 0;
  std::optional<Error> failure;  // The first one.
};

Error of_shard(std::size_t shard, const Error& error) {
  return {error.code(), "shard " + std::to_string(shard) + ": " + error.message()};
}

std::vector<Finding> joined(const std::vector<std::vector<Finding>>& found) {
  std::vector<Finding> all;
  for (std::size_t shard = 0; shard < found.size(); ++shard) {
    for (Finding each : found[shard]) {
      const bool known = std::any_of(all.begin(), all.end(), [&](const Finding& other) {
        return other.topic == each.topic && other.severity == each.severity;
      });
      if (known && each.topic != "server") continue;
      if (each.topic == "server") each.what = "shard " + std::to_string(shard) + ": " + each.what;
      all.push_back(std::move(each));
    }
  }
  return all;
}

class ShardedStore final : public port::Store {
 public:
  explicit ShardedStore(std::vector<std::unique_ptr<port::Store>> shards)
      : shards_(std::move(shards)), renewals_(std::make_shared<ShardRenewals>(shards_)) {}

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

  // Calls `ask` for each shard, and `done` with the answers in their order.
  template <typename T, typename Ask>
  void ask_all(const Ask& ask, Done<std::vector<T>> done) {
    auto gathered = std::make_shared<Gathered<T>>();
    gathered->answers.resize(shards_.size());
    gathered->left = shards_.size();
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      ask(*shards_[i], [gathered, i, done](Result<T> answer) {
        if (answer) {
          gathered->answers[i] = *std::move(answer);
        } else if (!gathered->failure) {
          gathered->failure = of_shard(i, answer.error());
        }
        if (--gathered->left > 0) return;
        gathered->failure ? done(*gathered->failure) : done(std::move(gathered->answers));
      });
    }
  }

  const std::vector<std::unique_ptr<port::Store>> shards_;
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
  auto whole = std::make_shared<Gathered<Result<AcquisitionState>>>();
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
      [&](port::Store& shard, Done<Locks> told) {
        shard.list(prefix, limit, deadline, std::move(told));
      },
      [limit, done = std::move(done)](Result<std::vector<Locks>> found) {
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
  using Handles = std::vector<port::WatchHandle>;
  ask_all<port::WatchHandle>(
      [&](port::Store& shard, Done<port::WatchHandle> told) {
        shard.watch(prefix, sink, deadline, std::move(told));
      },
      [done = std::move(done)](Result<Handles> handles) {
        if (!handles) return done(handles.error());
        done(port::WatchHandle{std::make_shared<Handles>(*std::move(handles))});
      });
}

// A finding that all shards have is told once. A shard that does not answer is a finding itself,
// unless none does.
void ShardedStore::probe(BootInstant deadline, Done<std::vector<Finding>> done) {
  using Findings = std::vector<Finding>;
  const auto silent = std::make_shared<std::vector<Error>>();
  ask_all<Findings>(
      [&](port::Store& shard, Done<Findings> told) {
        shard.probe(deadline, [silent, told = std::move(told)](Result<Findings> found) {
          if (found) return told(std::move(found));
          silent->push_back(found.error());
          told(Findings{{Severity::kProblem, "server", silent->back().message(),
                         "'holdfast server status' shows which server leads the shard"}});
        });
      },
      [silent, shards = shards_.size(),
       done = std::move(done)](const Result<std::vector<Findings>>& found) {
        if (!found) return done(found.error());
        silent->size() == shards ? done(silent->front()) : done(joined(*found));
      });
}

}  // namespace

std::unique_ptr<port::Store> make_sharded_store(std::vector<std::unique_ptr<port::Store>> shards) {
  return std::make_unique<ShardedStore>(std::move(shards));
}

}  // namespace holdfast::stores::holdfast
