// The asynchronous calls, for include/holdfast/asio.h.
#include "holdfast/detail/async.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "src/base/thread.h"
#include "src/primitives/lease_id.h"
#include "src/primitives/moved_lease.h"
#include "src/primitives/mutex_state.h"
#include "src/session/core.h"
#include "src/session/names.h"

namespace holdfast::detail {
namespace {

using session::Core;

// The receiver is let go of with the answer, whatever copies of the function are left.
template <typename T>
Core::Done<T> to_receiver(ReceiverPtr<T> to) {
  return [to = std::move(to)](Result<T> result) mutable {
    Receiver<T>& receiver = *to;
    receiver.complete(std::move(to), std::move(result));
  };
}

void refuse_moved(ReceiverPtr<void> to) {
  to_receiver(std::move(to))(primitives::moved_lease_error());
}

}  // namespace

// The makers of leases, which only this file and the blocking calls have.
struct Leases {
  static Core::Done<Core::ContenderPtr> waited(const std::string& name, ReceiverPtr<Lease> to) {
    return [to = std::move(to), name](Result<Core::ContenderPtr> got) mutable {
      Receiver<Lease>& receiver = *to;
      if (!got) return receiver.complete(std::move(to), std::move(got).error());
      if (*got == nullptr) {
        return receiver.complete(
            std::move(to),
            Error(Errc::kTimedOut, "lock '" + session::printable(name) + "' is held elsewhere"));
      }
      receiver.complete(std::move(to), Async::lease(*std::move(got)));
    };
  }

  static Core::Done<Core::ContenderPtr> tried(ReceiverPtr<std::optional<Lease>> to) {
    return [to = std::move(to)](Result<Core::ContenderPtr> got) mutable {
      Receiver<std::optional<Lease>>& receiver = *to;
      if (!got) return receiver.complete(std::move(to), std::move(got).error());
      std::optional<Lease> lease;
      if (*got != nullptr) lease.emplace(Async::lease(*std::move(got)));
      receiver.complete(std::move(to), std::move(lease));
    };
  }
};

Lease Async::lease(std::shared_ptr<session::Contender> contender) {
  return Lease(std::move(contender));
}

void Async::connect(std::string url, ClientOptions options, ReceiverPtr<Client> to) {
  try {
    base::start_thread("holdfast-open", [url = std::move(url), options = std::move(options), to] {
      auto client = Client::connect(url, options);
      to->complete(to, std::move(client));
    }).detach();
  } catch (const std::system_error& error) {
    Receiver<Client>& receiver = *to;
    receiver.complete(
        std::move(to),
        Error(Errc::kUnavailable, std::string("no thread to connect on: ") + error.what()));
  }
}

Handle Async::acquire(const Mutex& mutex, AcquireOptions options, ReceiverPtr<Lease> to) {
  const auto& core = mutex.state_->core;
  const std::string& name = mutex.state_->name;
  return {core, core->acquire(name, Mode::exclusive(), std::move(options), /*may_wait=*/true,
                              Leases::waited(name, std::move(to)))};
}

Handle Async::acquire(const Client& client, std::string name, Mode mode, AcquireOptions options,
                      ReceiverPtr<Lease> to) {
  auto done = Leases::waited(name, std::move(to));
  return {client.core_, client.core_->acquire(std::move(name), mode, std::move(options),
                                              /*may_wait=*/true, std::move(done))};
}

Handle Async::try_acquire(const Mutex& mutex, AcquireOptions options,
                          ReceiverPtr<std::optional<Lease>> to) {
  const auto& core = mutex.state_->core;
  return {core, core->acquire(mutex.state_->name, Mode::exclusive(), std::move(options),
                              /*may_wait=*/false, Leases::tried(std::move(to)))};
}

Handle Async::try_acquire(const Client& client, std::string name, Mode mode, AcquireOptions options,
                          ReceiverPtr<std::optional<Lease>> to) {
  return {client.core_, client.core_->acquire(std::move(name), mode, std::move(options),
                                              /*may_wait=*/false, Leases::tried(std::move(to)))};
}

void Async::cancel(const Handle& wait) {
  if (wait.contender) wait.core->cancel(wait.contender);
}

Handle Async::handle(const Lease& lease) {
  if (!lease.contender_) return {};
  return {lease.contender_->core, lease.contender_};
}

void Async::release(const Handle& lease, ReceiverPtr<void> to) {
  if (!lease.core) return refuse_moved(std::move(to));
  lease.core->release(lease.contender, to_receiver(std::move(to)));
}

void Async::renew(const Handle& lease, ReceiverPtr<void> to) {
  if (!lease.core) return refuse_moved(std::move(to));
  lease.core->renew(lease.contender, to_receiver(std::move(to)));
}

void Async::adopt(const Client& client, const std::string& lease_id, AcquireOptions options,
                  ReceiverPtr<Lease> to) {
  auto id = primitives::parse_lease_id(lease_id);
  if (!id) {
    Receiver<Lease>& receiver = *to;
    return receiver.complete(std::move(to), std::move(id).error());
  }
  if (options.ttl == std::chrono::milliseconds::zero()) options.ttl = id->ttl;
  auto done = Leases::waited(id->name, std::move(to));
  client.core_->adopt(std::move(id->name), id->mode, id->id, std::move(options), std::move(done));
}

void Async::inspect(const Client& client, std::string name,
                    ReceiverPtr<std::optional<LockInfo>> to) {
  client.core_->inspect(std::move(name), to_receiver(std::move(to)));
}

void Async::list(const Client& client, std::string prefix, std::size_t limit,
                 ReceiverPtr<std::vector<LockInfo>> to) {
  client.core_->list(std::move(prefix), limit, to_receiver(std::move(to)));
}

void Async::watch(const Client& client, std::string prefix,
                  std::function<void(const LockEvent&)> callback, ReceiverPtr<Watch> to) {
  client.core_->watch(std::move(prefix), std::move(callback), to_receiver(std::move(to)));
}

void Async::break_lock(const Client& client, std::string name, Token token, std::string reason,
                       ReceiverPtr<void> to) {
  client.core_->break_lock(std::move(name), {token.epoch, token.counter}, std::move(reason),
                           to_receiver(std::move(to)));
}

void Async::doctor(const Client& client, ReceiverPtr<DoctorReport> to) {
  client.core_->doctor(to_receiver(std::move(to)));
}

void Async::close(const Client& client, std::chrono::milliseconds deadline, ReceiverPtr<void> to) {
  client.core_->close(std::min<std::chrono::milliseconds>(deadline, Core::kLongestRequest),
                      to_receiver(std::move(to)));
}

}  // namespace holdfast::detail
