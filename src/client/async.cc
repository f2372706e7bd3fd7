// The asynchronous calls, for include/holdfast/asio.h.
#include "holdfast/detail/async.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "src/base/exit_gate.h"
#include "src/base/thread.h"
#include "src/primitives/lease_id.h"
#include "src/primitives/moved_lease.h"
#include "src/primitives/mutex_state.h"
#include "src/session/core.h"
#include "src/session/names.h"

namespace holdfast::detail {
namespace {

using session::Core;

// To the program, unless that has begun to end: then what the receiver refers to may be gone, so it
// is not even let go of.
template <typename T>
void deliver(ReceiverPtr<T> to, Result<T> result) {
  const base::ExitPassage passage;
  if (!passage) {
    static_cast<void>(new ReceiverPtr<T>(std::move(to)));
    return;
  }
  Receiver<T>& receiver = *to;
  receiver.complete(std::move(to), std::move(result));
}

// The receiver is let go of with the answer, whatever copies of the function are left.
template <typename T>
Core::Done<T> to_receiver(ReceiverPtr<T> to) {
  return
      [to = std::move(to)](Result<T> result) mutable { deliver(std::move(to), std::move(result)); };
}

// Of a call that Async::cancel() cannot end: it is given what tells the receiver.
template <typename T, typename Call>
Start<T> start(Call call) {
  return [call = std::move(call)](ReceiverPtr<T> to) mutable -> Handle {
    call(to_receiver(std::move(to)));
    return {};
  };
}

}  // namespace

// The makers of leases, which only this file and the blocking calls have.
struct Leases {
  static Core::Done<Core::ContenderPtr> waited(const std::string& name, ReceiverPtr<Lease> to) {
    return [to = std::move(to), name](Result<Core::ContenderPtr> got) mutable {
      if (!got) return deliver<Lease>(std::move(to), std::move(got).error());
      if (*got == nullptr) {
        return deliver<Lease>(
            std::move(to),
            Error(Errc::kTimedOut, "lock '" + session::printable(name) + "' is held elsewhere"));
      }
      deliver<Lease>(std::move(to), Async::lease(*std::move(got)));
    };
  }

  static Core::Done<Core::ContenderPtr> tried(ReceiverPtr<std::optional<Lease>> to) {
    return [to = std::move(to)](Result<Core::ContenderPtr> got) mutable {
      if (!got) return deliver<std::optional<Lease>>(std::move(to), std::move(got).error());
      std::optional<Lease> lease;
      if (*got != nullptr) lease.emplace(Async::lease(*std::move(got)));
      deliver<std::optional<Lease>>(std::move(to), std::move(lease));
    };
  }

  static Start<Lease> acquire(std::shared_ptr<Core> core, std::string name, Mode mode,
                              AcquireOptions options) {
    return [core = std::move(core), name = std::move(name), mode,
            options = std::move(options)](ReceiverPtr<Lease> to) mutable -> Handle {
      auto done = waited(name, std::move(to));
      return {core, core->acquire(std::move(name), mode, std::move(options), /*may_wait=*/true,
                                  std::move(done))};
    };
  }

  static Start<std::optional<Lease>> try_acquire(std::shared_ptr<Core> core, std::string name,
                                                 Mode mode, AcquireOptions options) {
    return [core = std::move(core), name = std::move(name), mode,
            options = std::move(options)](ReceiverPtr<std::optional<Lease>> to) mutable -> Handle {
      return {core, core->acquire(std::move(name), mode, std::move(options), /*may_wait=*/false,
                                  tried(std::move(to)))};
    };
  }
};

Lease Async::lease(std::shared_ptr<session::Contender> contender) {
  return Lease(std::move(contender));
}

Handle Async::handle(const Lease& lease) {
  if (!lease.contender_) return {};
  return {lease.contender_->core, lease.contender_};
}

Start<Client> Async::connect(std::string url, ClientOptions options) {
  base::arm_exit_gate();
  return [url = std::move(url), options = std::move(options)](ReceiverPtr<Client> to) -> Handle {
    try {
      base::start_thread("holdfast-open", [url, options, to]() mutable {
        deliver(std::move(to), Client::connect(url, options));
      }).detach();
    } catch (const std::system_error& error) {
      deliver<Client>(
          std::move(to),
          Error(Errc::kUnavailable, std::string("no thread to connect on: ") + error.what()));
    }
    return {};
  };
}

Start<Lease> Async::acquire(const Mutex& mutex, AcquireOptions options) {
  return Leases::acquire(mutex.state_->core, mutex.state_->name, Mode::exclusive(),
                         std::move(options));
}

Start<Lease> Async::acquire(const Client& client, std::string name, Mode mode,
                            AcquireOptions options) {
  return Leases::acquire(client.core_, std::move(name), mode, std::move(options));
}

Start<std::optional<Lease>> Async::try_acquire(const Mutex& mutex, AcquireOptions options) {
  return Leases::try_acquire(mutex.state_->core, mutex.state_->name, Mode::exclusive(),
                             std::move(options));
}

Start<std::optional<Lease>> Async::try_acquire(const Client& client, std::string name, Mode mode,
                                               AcquireOptions options) {
  return Leases::try_acquire(client.core_, std::move(name), mode, std::move(options));
}

void Async::cancel(const Handle& wait) {
  if (wait.contender) wait.core->cancel(wait.contender);
}

Start<void> Async::release(const Lease& lease) {
  return start<void>([held = handle(lease)](const Core::Done<void>& done) {
    if (!held.core) return done(primitives::moved_lease_error());
    held.core->release(held.contender, done);
  });
}

Start<void> Async::renew(const Lease& lease) {
  return start<void>([held = handle(lease)](const Core::Done<void>& done) {
    if (!held.core) return done(primitives::moved_lease_error());
    held.core->renew(held.contender, done);
  });
}

Start<Lease> Async::adopt(const Client& client, std::string lease_id, AcquireOptions options) {
  return [core = client.core_, lease_id = std::move(lease_id),
          options = std::move(options)](ReceiverPtr<Lease> to) mutable -> Handle {
    auto id = primitives::parse_lease_id(lease_id);
    if (!id) {
      deliver<Lease>(std::move(to), std::move(id).error());
      return {};
    }
    if (options.ttl == std::chrono::milliseconds::zero()) options.ttl = id->ttl;
    auto done = Leases::waited(id->name, std::move(to));
    core->adopt(std::move(id->name), id->mode, id->id, std::move(options), std::move(done));
    return {};
  };
}

Start<std::optional<LockInfo>> Async::inspect(const Client& client, std::string name) {
  return start<std::optional<LockInfo>>([core = client.core_, name = std::move(name)](
                                            Core::Done<std::optional<LockInfo>> done) mutable {
    core->inspect(std::move(name), std::move(done));
  });
}

Start<std::vector<LockInfo>> Async::list(const Client& client, std::string prefix,
                                         std::size_t limit) {
  return start<std::vector<LockInfo>>([core = client.core_, prefix = std::move(prefix),
                                       limit](Core::Done<std::vector<LockInfo>> done) mutable {
    core->list(std::move(prefix), limit, std::move(done));
  });
}

Start<Watch> Async::watch(const Client& client, std::string prefix,
                          std::function<void(const LockEvent&)> callback) {
  return start<Watch>([core = client.core_, prefix = std::move(prefix),
                       callback = std::move(callback)](Core::Done<Watch> done) mutable {
    core->watch(std::move(prefix), std::move(callback), std::move(done));
  });
}

Start<void> Async::break_lock(const Client& client, std::string name, Token token,
                              std::string reason) {
  return start<void>([core = client.core_, name = std::move(name), token,
                      reason = std::move(reason)](Core::Done<void> done) mutable {
    core->break_lock(std::move(name), {token.epoch, token.counter}, std::move(reason),
                     std::move(done));
  });
}

Start<DoctorReport> Async::doctor(const Client& client) {
  return start<DoctorReport>(
      [core = client.core_](Core::Done<DoctorReport> done) { core->doctor(std::move(done)); });
}

Start<void> Async::close(const Client& client, std::chrono::milliseconds deadline) {
  return start<void>([core = client.core_, deadline](const Core::Done<void>& done) {
    core->close(std::min<std::chrono::milliseconds>(deadline, Core::kLongestRequest), done);
  });
}

}  // namespace holdfast::detail
