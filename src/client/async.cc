// The asynchronous calls, for include/holdfast/asio.h.
#include "holdfast/detail/async.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "src/base/exit_gate.h"
#include "src/base/thread.h"
#include "src/primitives/lease_id.h"
#include "src/primitives/lock_state.h"
#include "src/primitives/moved_lease.h"
#include "src/primitives/start.h"

namespace holdfast::detail {
namespace {

using session::Core;

// Starts a call about a lease, and takes the acquisition from the lease.
Start<void> start_on_lease(
    const Lease& lease,
    std::function<void(Core&, const Core::AcquisitionPtr&, const Core::Done<void>&)> call) {
  auto held = LeaseAccess::of(lease);
  auto core = held ? held->core : nullptr;
  return start<void>([core = std::move(core), held = std::move(held),
                      call = std::move(call)](const Core::Done<void>& done) {
    if (!core) return done(primitives::moved_lease_error());
    call(*core, held, done);
  });
}

}  // namespace

Start<Client> Async::connect(std::string url, ClientOptions options) {
  base::arm_exit_gate();
  return [url = std::move(url), options = std::move(options)](ReceiverPtr<Client> to) -> Handle {
    try {
      // Opening a store may block, and starting a call must not.
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
  return start_acquire(mutex.state_->core, mutex.state_->name, Mode::exclusive(),
                       std::move(options));
}

Start<Lease> Async::acquire(const Client& client, std::string name, Mode mode,
                            AcquireOptions options) {
  return start_acquire(client.core_, std::move(name), mode, std::move(options));
}

Start<std::optional<Lease>> Async::try_acquire(const Mutex& mutex, AcquireOptions options) {
  return start_try_acquire(mutex.state_->core, mutex.state_->name, Mode::exclusive(),
                           std::move(options));
}

Start<std::optional<Lease>> Async::try_acquire(const Client& client, std::string name, Mode mode,
                                               AcquireOptions options) {
  return start_try_acquire(client.core_, std::move(name), mode, std::move(options));
}

void Async::cancel(const Handle& wait) {
  if (wait.flow) wait.flow->cancel();
  if (wait.acquisition) wait.core->cancel(wait.acquisition);
}

Start<void> Async::release(const Lease& lease) {
  return start_on_lease(lease, [](Core& core, const Core::AcquisitionPtr& held,
                                  const Core::Done<void>& done) { core.release(held, done); });
}

Start<void> Async::renew(const Lease& lease) {
  return start_on_lease(lease, [](Core& core, const Core::AcquisitionPtr& held,
                                  const Core::Done<void>& done) { core.renew(held, done); });
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
    core->adopt(id->name, id->mode, id->id, std::move(options),
                [to = std::move(to), name = id->name](Result<Core::AcquisitionPtr> got) mutable {
                  deliver(std::move(to), as_lease(std::move(got), name));
                });
    return {};
  };
}

Start<std::optional<LockInfo>> Async::inspect(const Client& client, std::string name) {
  return start<std::optional<LockInfo>>([core = client.core_, name = std::move(name)](
                                            Core::Done<std::optional<LockInfo>> done) mutable {
    core->administration().inspect(std::move(name), std::move(done));
  });
}

Start<bool> Async::check(const Client& client, std::string name, Token token) {
  return start<bool>(
      [core = client.core_, name = std::move(name), token](Core::Done<bool> done) mutable {
        core->administration().check(std::move(name), token, std::move(done));
      });
}

Start<std::vector<LockInfo>> Async::list(const Client& client, std::string prefix,
                                         std::size_t limit) {
  return start<std::vector<LockInfo>>([core = client.core_, prefix = std::move(prefix),
                                       limit](Core::Done<std::vector<LockInfo>> done) mutable {
    core->administration().list(std::move(prefix), limit, std::move(done));
  });
}

Start<Watch> Async::watch(const Client& client, std::string prefix,
                          std::function<void(const LockEvent&)> callback) {
  return start<Watch>([core = client.core_, prefix = std::move(prefix),
                       callback = std::move(callback)](Core::Done<Watch> done) mutable {
    core->administration().watch(std::move(prefix), std::move(callback), std::move(done));
  });
}

Start<void> Async::break_lock(const Client& client, std::string name, Token token,
                              std::string reason) {
  return start<void>([core = client.core_, name = std::move(name), token,
                      reason = std::move(reason)](Core::Done<void> done) mutable {
    core->administration().break_lock(std::move(name), {token.epoch, token.counter},
                                      std::move(reason), std::move(done));
  });
}

Start<DoctorReport> Async::doctor(const Client& client) {
  return start<DoctorReport>([core = client.core_](Core::Done<DoctorReport> done) {
    core->administration().doctor(std::move(done));
  });
}

Start<void> Async::close(const Client& client, std::chrono::milliseconds deadline) {
  return start<void>([core = client.core_, deadline](const Core::Done<void>& done) {
    core->close(std::min<std::chrono::milliseconds>(deadline, Core::kLongestRequest), done);
  });
}

}  // namespace holdfast::detail
