// The core's questions to the store that no lease depends on.
#include <algorithm>
#include <future>
#include <mutex>

#include "src/session/core.h"
#include "src/session/core_call.h"
#include "src/session/names.h"
#include "src/session/watch_sampler.h"

namespace holdfast::session {
namespace {

// The port promises an answer by the deadline; this bounds the damage should a store break that.
constexpr auto kGrace = std::chrono::seconds(10);

}  // namespace

template <typename T>
Result<T> Core::ask(const std::function<void(BootInstant, port::Done<T>)>& send) {
  const Call call(*this);
  if (!call.alive()) return call.alive().error();
  auto promise = std::make_shared<std::promise<Result<T>>>();
  auto answer = promise->get_future();
  send(request_deadline(), [promise](Result<T> result) { promise->set_value(std::move(result)); });
  if (answer.wait_for(options_.client.request_timeout + kGrace) != std::future_status::ready) {
    return Error(Errc::kOutcomeUnknown, "the store" + at_store() + " did not answer");
  }
  return answer.get();
}

template Result<port::EndStatus> Core::ask(
    const std::function<void(BootInstant, port::Done<port::EndStatus>)>&);
template Result<std::vector<Result<port::TicketState>>> Core::ask(
    const std::function<void(BootInstant, port::Done<std::vector<Result<port::TicketState>>>)>&);

BootInstant Core::request_deadline() const {
  return base::BootClock::now() + options_.client.request_timeout;
}

std::string Core::stored(const std::string& name) const {
  return options_.name_space.empty() ? name : options_.name_space + "/" + name;
}

std::string Core::shown(const std::string& stored_name) const {
  const std::size_t skip = options_.name_space.empty() ? 0 : options_.name_space.size() + 1;
  return stored_name.substr(std::min(skip, stored_name.size()));
}

port::OwnerPtr Core::owner_info(const std::string& reason) const {
  auto info = std::make_shared<machine::OwnerInfo>(owner_);
  info->reason = reason;
  info->since_unix_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(base::wall_now().time_since_epoch())
          .count();
  return info;
}

Result<std::optional<LockInfo>> Core::inspect(std::string name) {
  if (auto good = check_name(name); !good) return good.error();
  auto found = ask<std::optional<LockInfo>>([&](BootInstant deadline, auto done) {
    store_->inspect(stored(name), deadline, std::move(done));
  });
  if (found && *found) (*found)->name = name;
  return found;
}

Result<std::vector<LockInfo>> Core::list(std::string prefix, std::size_t limit) {
  auto found = ask<std::vector<LockInfo>>([&](BootInstant deadline, auto done) {
    store_->list(stored(prefix), limit, deadline, std::move(done));
  });
  if (found) {
    for (LockInfo& lock : *found) lock.name = shown(lock.name);
  }
  return found;
}

Result<void> Core::break_lock(std::string name, port::Token token, std::string reason) {
  if (auto good = check_name(name); !good) return good;
  const auto done = ask<bool>([&](BootInstant deadline, port::Done<bool> reply) {
    store_->break_lock({stored(name), token, owner_info(reason), deadline}, std::move(reply));
  });
  if (!done) return done.error();
  return {};
}

Result<DoctorReport> Core::doctor() {
  auto findings = ask<std::vector<Finding>>(
      [&](BootInstant deadline, auto done) { store_->probe(deadline, std::move(done)); });
  if (!findings) return findings.error();
  return DoctorReport{options_.store_url, store_->guarantees(), *std::move(findings)};
}

namespace {

// Keeps a callback from running after its Watch went. Recursive, because a callback may drop its
// own Watch.
struct Subscription {
  std::recursive_mutex mutex;
  bool ended = false;
  std::function<void(const LockEvent&)> callback;
  port::WatchHandle store_watch;
  std::shared_ptr<WatchSampler> sampler;
};

// The handle of a watch: keeps the core, and ends the callbacks when it goes.
class WatchEnder {
 public:
  WatchEnder(std::shared_ptr<Core> core, std::shared_ptr<Subscription> subscription)
      : core_(std::move(core)), subscription_(std::move(subscription)) {}
  WatchEnder(const WatchEnder&) = delete;
  WatchEnder& operator=(const WatchEnder&) = delete;
  ~WatchEnder() {
    if (core_->forked()) return;
    const std::lock_guard lock(subscription_->mutex);
    subscription_->ended = true;
    subscription_->store_watch = {};
    subscription_->sampler = nullptr;
  }

 private:
  std::shared_ptr<Core> core_;
  std::shared_ptr<Subscription> subscription_;
};

}  // namespace

Result<Watch> Core::watch(std::string prefix, std::function<void(const LockEvent&)> callback) {
  if (auto alive = check_alive(); !alive) return alive.error();
  auto subscription = std::make_shared<Subscription>();
  subscription->callback = std::move(callback);
  const std::weak_ptr<Subscription> weak = subscription;
  const auto sink = [this, weak](const LockEvent& event) {
    LockEvent shown_event = event;
    shown_event.name = shown(event.name);
    notifier_.post([weak, shown_event = std::move(shown_event)] {
      const auto alive = weak.lock();
      if (!alive) return;
      const std::lock_guard lock(alive->mutex);
      if (!alive->ended) alive->callback(shown_event);
    });
  };
  if (store_->guarantees().watch_every_change) {
    auto handle = store_->watch(stored(prefix), sink);
    if (!handle) return handle.error();
    subscription->store_watch = *std::move(handle);
  } else {
    auto present = ask<std::vector<LockInfo>>([&](BootInstant deadline, auto done) {
      store_->list(stored(prefix), WatchSampler::kMostLocks, deadline, std::move(done));
    });
    if (!present) return present.error();
    subscription->sampler = WatchSampler::start(*this, stored(prefix), sink, *std::move(present));
  }
  return Watch(std::make_shared<WatchEnder>(shared_from_this(), std::move(subscription)));
}

}  // namespace holdfast::session
