// Questions to the store, and orders, that no lease of this client depends on.
#include "src/session/administration.h"

#include <mutex>
#include <utility>

#include "src/base/lock_name.h"
#include "src/base/random.h"
#include "src/session/core.h"
#include "src/session/core_call.h"
#include "src/session/names.h"
#include "src/session/reports/watch_sampler.h"

namespace holdfast::session {

Result<std::optional<LockInfo>> Administration::inspect(std::string name) {
  return core_.await<std::optional<LockInfo>>(
      [&](Done<std::optional<LockInfo>> done) { inspect(std::move(name), std::move(done)); });
}

void Administration::inspect(std::string name, Done<std::optional<LockInfo>> done) {
  if (auto good = check_shown_name(name); !good) return done(good.error());
  core_.ask<std::optional<LockInfo>>(
      [&](BootInstant deadline, port::Done<std::optional<LockInfo>> answered) {
        core_.store_->inspect(core_.stored(name), deadline, std::move(answered));
      },
      [name, done = std::move(done)](Result<std::optional<LockInfo>> found) {
        if (found && *found) (*found)->name = name;
        done(std::move(found));
      });
}

Result<bool> Administration::check(std::string name, Token token) {
  return core_.await<bool>(
      [&](Done<bool> done) { check(std::move(name), token, std::move(done)); });
}

void Administration::check(std::string name, Token token, Done<bool> done) {
  if (token == Token{}) {
    return done(Error(Errc::kInvalidArgument, "the zero token is no grant's: give a lease's"));
  }
  if (!core_.guarantees().fenced) {
    return done(Error(Errc::kUnsupported,
                      "the locks of this store have no tokens, so none can be checked"));
  }
  inspect(name, [name, token, done = std::move(done)](const Result<std::optional<LockInfo>>& seen) {
    if (!seen) return done(seen.error());
    if (!*seen) return done(false);
    bool unreadable = false;
    for (const HolderInfo& holder : (*seen)->holders) {
      if (holder.token == token) return done(true);
      unreadable = unreadable || holder.token == Token{};
    }
    if (!unreadable) return done(false);
    done(Error(Errc::kCorruptState, "the description of a holder of '" + name +
                                        "' cannot be read, so it is not known which token it has"));
  });
}

Result<std::vector<LockInfo>> Administration::list(std::string prefix, std::size_t limit) {
  return core_.await<std::vector<LockInfo>>(
      [&](Done<std::vector<LockInfo>> done) { list(std::move(prefix), limit, std::move(done)); });
}

void Administration::list(std::string prefix, std::size_t limit, Done<std::vector<LockInfo>> done) {
  if (auto good = base::check_lock_prefix(prefix); !good) return done(good.error());
  core_.ask<std::vector<LockInfo>>(
      [&](BootInstant deadline, port::Done<std::vector<LockInfo>> answered) {
        core_.store_->list(core_.stored(prefix), limit, deadline, std::move(answered));
      },
      [this, done = std::move(done)](Result<std::vector<LockInfo>> found) {
        if (found) {
          for (LockInfo& lock : *found) lock.name = core_.shown(lock.name);
        }
        done(std::move(found));
      });
}

Result<void> Administration::break_lock(std::string name, port::Token token, std::string reason) {
  return core_.await<void>([&](Done<void> done) {
    break_lock(std::move(name), token, std::move(reason), std::move(done));
  });
}

void Administration::break_lock(std::string name, port::Token token, std::string reason,
                                Done<void> done) {
  if (auto good = check_shown_name(name); !good) return done(good);
  core_.ask<bool>(
      [&](BootInstant deadline, port::Done<bool> answered) {
        core_.store_->break_lock({core_.stored(name), token, core_.owner_info(reason), deadline},
                                 std::move(answered));
      },
      [done = std::move(done)](const Result<bool>& broken) {
        done(broken ? Result<void>() : Result<void>(broken.error()));
      });
}

Result<DoctorReport> Administration::doctor() {
  return core_.await<DoctorReport>([&](Done<DoctorReport> done) { doctor(std::move(done)); });
}

void Administration::doctor(Done<DoctorReport> done) {
  core_.ask<std::vector<Finding>>(
      [&](BootInstant deadline, port::Done<std::vector<Finding>> answered) {
        core_.store_->probe(deadline, std::move(answered));
      },
      [this, done = std::move(done)](Result<std::vector<Finding>> findings) {
        if (!findings) return done(findings.error());
        done(DoctorReport{core_.options_.store_url, core_.store_->guarantees(),
                          *std::move(findings)});
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

Result<Watch> Administration::watch(std::string prefix,
                                    std::function<void(const LockEvent&)> callback) {
  return core_.await<Watch>(
      [&](Done<Watch> done) { watch(std::move(prefix), std::move(callback), std::move(done)); });
}

void Administration::watch(std::string prefix, std::function<void(const LockEvent&)> callback,
                           Done<Watch> done) {
  if (auto alive = core_.check_alive(); !alive) return done(alive.error());
  if (auto good = base::check_lock_prefix(prefix); !good) return done(good.error());
  auto subscription = std::make_shared<Subscription>();
  subscription->callback = std::move(callback);
  const std::weak_ptr<Subscription> weak = subscription;
  const auto sink = [this, weak](const LockEvent& event) {
    LockEvent shown_event = event;
    shown_event.name = core_.shown(event.name);
    core_.notifier_.post([weak, shown_event = std::move(shown_event)] {
      const auto alive = weak.lock();
      if (!alive) return;
      const std::lock_guard lock(alive->mutex);
      if (!alive->ended) alive->callback(shown_event);
    });
  };
  const auto handle = [this](std::shared_ptr<Subscription> made) {
    return Watch(std::make_shared<WatchEnder>(core_.shared_from_this(), std::move(made)));
  };
  // Two kinds of stores: one tells each change, the other is listed again and again.
  if (core_.store_->guarantees().watch_every_change) {
    return core_.ask<port::WatchHandle>(
        [&](BootInstant deadline, port::Done<port::WatchHandle> answered) {
          core_.store_->watch(core_.stored(prefix), sink, deadline, std::move(answered));
        },
        [handle, subscription, done = std::move(done)](Result<port::WatchHandle> watched) {
          if (!watched) return done(watched.error());
          subscription->store_watch = *std::move(watched);
          done(handle(subscription));
        });
  }
  core_.ask<std::vector<LockInfo>>(
      [&](BootInstant deadline, port::Done<std::vector<LockInfo>> answered) {
        core_.store_->list(core_.stored(prefix), WatchSampler::kMostLocks, deadline,
                           std::move(answered));
      },
      [this, sink, handle, prefix = core_.stored(prefix), subscription,
       done = std::move(done)](Result<std::vector<LockInfo>> present) {
        if (!present) return done(present.error());
        subscription->sampler = WatchSampler::start(core_, prefix, sink, *std::move(present));
        done(handle(subscription));
      });
}

// --- Values and capacity.

void Administration::get_value(const std::string& name, Done<std::string> done) {
  if (auto good = check_name(name); !good) return done(good.error());
  get_stored_value(core_.stored(name), std::move(done));
}

void Administration::get_value(const InnerName& name, Done<std::string> done) {
  get_stored_value(core_.stored(name.text()), std::move(done));
}

void Administration::get_stored_value(std::string stored_name, Done<std::string> done) {
  core_.ask<std::string>(
      [&](BootInstant deadline, port::Done<std::string> answered) {
        core_.store_->get_value(std::move(stored_name), deadline, std::move(answered));
      },
      std::move(done));
}

port::WatchHandle Administration::watch_value(const std::string& name, port::Task changed) {
  const Core::Call call(core_);
  if (!call.alive()) return {};
  return core_.store_->watch_value(core_.stored(name), std::move(changed));
}

void Administration::resize(std::string name, std::uint32_t capacity, Done<bool> done) {
  if (auto good = check_name(name); !good) return done(good.error());
  if (capacity == 0) {
    return done(
        Error(Errc::kInvalidArgument, lock_named(name) + ": a semaphore has at least one permit"));
  }
  core_.ask<bool>(
      [&](BootInstant deadline, port::Done<bool> answered) {
        const base::Random128 random = base::random_128();
        core_.store_->resize(
            {core_.stored(name), {random.high, random.low}, deadline, ++core_.last_issue_},
            capacity, std::move(answered));
      },
      std::move(done));
}

}  // namespace holdfast::session
