// The core's questions to the store that no lease depends on.
#include <algorithm>
#include <mutex>

#include "src/session/core.h"
#include "src/session/core_call.h"
#include "src/session/names.h"
#include "src/session/watch_sampler.h"

namespace holdfast::session {
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

port::OwnerPtr Core::owner_info(const std::string& reason, const std::string& trace_id,
                                const std::optional<Owner>& owner) const {
  auto info = std::make_shared<machine::OwnerInfo>(owner_);
  if (owner) info->owner = owner->id();
  info->reason = reason;
  info->trace_id = trace_id;
  info->since_unix_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(base::wall_now().time_since_epoch())
          .count();
  return info;
}

std::string Core::owner_of(const Acquisition& acquisition) const {
  return acquisition.options.owner ? acquisition.options.owner->id() : owner_.owner;
}

Result<std::optional<LockInfo>> Core::inspect(std::string name) {
  return await<std::optional<LockInfo>>(
      [&](Done<std::optional<LockInfo>> done) { inspect(std::move(name), std::move(done)); });
}

void Core::inspect(std::string name, Done<std::optional<LockInfo>> done) {
  if (auto good = check_shown_name(name); !good) return done(good.error());
  ask<std::optional<LockInfo>>(
      [&](BootInstant deadline, port::Done<std::optional<LockInfo>> answered) {
        store_->inspect(stored(name), deadline, std::move(answered));
      },
      [name, done = std::move(done)](Result<std::optional<LockInfo>> found) {
        if (found && *found) (*found)->name = name;
        done(std::move(found));
      });
}

Result<std::vector<LockInfo>> Core::list(std::string prefix, std::size_t limit) {
  return await<std::vector<LockInfo>>(
      [&](Done<std::vector<LockInfo>> done) { list(std::move(prefix), limit, std::move(done)); });
}

void Core::list(std::string prefix, std::size_t limit, Done<std::vector<LockInfo>> done) {
  ask<std::vector<LockInfo>>(
      [&](BootInstant deadline, port::Done<std::vector<LockInfo>> answered) {
        store_->list(stored(prefix), limit, deadline, std::move(answered));
      },
      [this, done = std::move(done)](Result<std::vector<LockInfo>> found) {
        if (found) {
          for (LockInfo& lock : *found) lock.name = shown(lock.name);
        }
        done(std::move(found));
      });
}

Result<void> Core::break_lock(std::string name, port::Token token, std::string reason) {
  return await<void>([&](Done<void> done) {
    break_lock(std::move(name), token, std::move(reason), std::move(done));
  });
}

void Core::break_lock(std::string name, port::Token token, std::string reason, Done<void> done) {
  if (auto good = check_shown_name(name); !good) return done(good);
  ask<bool>(
      [&](BootInstant deadline, port::Done<bool> answered) {
        store_->break_lock({stored(name), token, owner_info(reason), deadline},
                           std::move(answered));
      },
      [done = std::move(done)](const Result<bool>& broken) {
        done(broken ? Result<void>() : Result<void>(broken.error()));
      });
}

Result<DoctorReport> Core::doctor() {
  return await<DoctorReport>([&](Done<DoctorReport> done) { doctor(std::move(done)); });
}

void Core::doctor(Done<DoctorReport> done) {
  ask<std::vector<Finding>>(
      [&](BootInstant deadline, port::Done<std::vector<Finding>> answered) {
        store_->probe(deadline, std::move(answered));
      },
      [this, done = std::move(done)](Result<std::vector<Finding>> findings) {
        if (!findings) return done(findings.error());
        done(DoctorReport{options_.store_url, store_->guarantees(), *std::move(findings)});
      });
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
  return await<Watch>(
      [&](Done<Watch> done) { watch(std::move(prefix), std::move(callback), std::move(done)); });
}

void Core::watch(std::string prefix, std::function<void(const LockEvent&)> callback,
                 Done<Watch> done) {
  if (auto alive = check_alive(); !alive) return done(alive.error());
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
  const auto handle = [this](std::shared_ptr<Subscription> made) {
    return Watch(std::make_shared<WatchEnder>(shared_from_this(), std::move(made)));
  };
  if (store_->guarantees().watch_every_change) {
    auto watched = store_->watch(stored(prefix), sink);
    if (!watched) return done(watched.error());
    subscription->store_watch = *std::move(watched);
    return done(handle(std::move(subscription)));
  }
  ask<std::vector<LockInfo>>(
      [&](BootInstant deadline, port::Done<std::vector<LockInfo>> answered) {
        store_->list(stored(prefix), WatchSampler::kMostLocks, deadline, std::move(answered));
      },
      [this, sink, handle, prefix = stored(prefix), subscription,
       done = std::move(done)](Result<std::vector<LockInfo>> present) {
        if (!present) return done(present.error());
        subscription->sampler = WatchSampler::start(*this, prefix, sink, *std::move(present));
        done(handle(subscription));
      });
}

}  // namespace holdfast::session
