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

void refuse_moved(ReceiverPtr<void> to) {
  to_receiver(std::move(to))(primitives::moved_lease_error());
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
  return [state = mutex.state_,
          options = std::move(options)](ReceiverPtr<Lease> to) mutable -> Handle {
    return {state->core,
            state->core->acquire(state->name, Mode::exclusive(), std::move(options),
                                 /*may_wait=*/true, Leases::waited(state->name, std::move(to)))};
  };
}

Start<Lease> Async::acquire(const Client& client, std::string name, Mode mode,
                            AcquireOptions options) {
  return [core = client.core_, name = std::move(name), mode,
          options = std::move(options)](ReceiverPtr<Lease> to) mutable -> Handle {
    auto done = Leases::waited(name, std::move(to));
    return {core, core->acquire(std::move(name), mode, std::move(options), /*may_wait=*/true,
                                std::move(done))};
  };
}

Start<std::optional<Lease>> Async::try_acquire(const Mutex& mutex, AcquireOptions options) {
  return [state = mutex.state_,
          options = std::move(options)](ReceiverPtr<std::optional<Lease>> to) mutable -> Handle {
    return {state->core, state->core->acquire(state->name, Mode::exclusive(), std::move(options),
                                              /*may_wait=*/false, Leases::tried(std::move(to)))};
  };
}

Start<std::optional<Lease>> Async::try_acquire(const Client& client, std::string name, Mode mode,
                                               AcquireOptions options) {
  return [core = client.core_, name = std::move(name), mode,
          options = std::move(options)](ReceiverPtr<std::optional<Lease>> to) mutable -> Handle {
    return {core, core->acquire(std::move(name), mode, std::move(options), /*may_wait=*/false,
                                Leases::tried(std::move(to)))};
  };
}

void Async::cancel(const Handle& wait) {
  if (wait.contender) wait.core->cancel(wait.contender);
}

Start<void> Async::release(const Lease& lease) {
  return [held = handle(lease)](ReceiverPtr<void> to) -> Handle {
    if (!held.core) {
      refuse_moved(std::move(to));
    } else {
      held.core->release(held.contender, to_receiver(std::move(to)));
    }
    return {};
  };
}

Start<void> Async::renew(const Lease& lease) {
  return [held = handle(lease)](ReceiverPtr<void> to) -> Handle {
    if (!held.core) {
      refuse_moved(std::move(to));
    } else {
      held.core->renew(held.contender, to_receiver(std::move(to)));
    }
    return {};
  };
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
  return [core = client.core_,
          name = std::move(name)](ReceiverPtr<std::optional<LockInfo>> to) mutable -> Handle {
    core->inspect(std::move(name), to_receiver(std::move(to)));
    return {};
  };
}

Start<std::vector<LockInfo>> Async::list(const Client& client, std::string prefix,
                                         std::size_t limit) {
  return [core = client.core_, prefix = std::move(prefix),
          limit](ReceiverPtr<std::vector<LockInfo>> to) mutable -> Handle {
    core->list(std::move(prefix), limit, to_receiver(std::move(to)));
    return {};
  };
}

Start<Watch> Async::watch(const Client& client, std::string prefix,
                          std::function<void(const LockEvent&)> callback) {
  return [core = client.core_, prefix = std::move(prefix),
          callback = std::move(callback)](ReceiverPtr<Watch> to) mutable -> Handle {
    core->watch(std::move(prefix), std::move(callback), to_receiver(std::move(to)));
    return {};
  };
}

Start<void> Async::break_lock(const Client& client, std::string name, Token token,
                              std::string reason) {
  return [core = client.core_, name = std::move(name), token,
          reason = std::move(reason)](ReceiverPtr<void> to) mutable -> Handle {
    core->break_lock(std::move(name), {token.epoch, token.counter}, std::move(reason),
                     to_receiver(std::move(to)));
    return {};
  };
}

Start<DoctorReport> Async::doctor(const Client& client) {
  return [core = client.core_](ReceiverPtr<DoctorReport> to) -> Handle {
    core->doctor(to_receiver(std::move(to)));
    return {};
  };
}

Start<void> Async::close(const Client& client, std::chrono::milliseconds deadline) {
  return [core = client.core_, deadline](ReceiverPtr<void> to) -> Handle {
    core->close(std::min<std::chrono::milliseconds>(deadline, Core::kLongestRequest),
                to_receiver(std::move(to)));
    return {};
  };
}

}  // namespace holdfast::detail
