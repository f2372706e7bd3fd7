// What include/holdfast/asio.h is made of: Holdfast's asynchronous calls without Asio, so that the
// library does not depend on the Asio that a program uses. Not for programs: it may change with any
// version.
//
// Every call returns at once and completes its receiver exactly once, also when the client is
// closed (kClosed) or this is a forked child.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/client.h"
#include "holdfast/export.h"
#include "holdfast/lease.h"
#include "holdfast/lock_info.h"
#include "holdfast/mode.h"
#include "holdfast/mutex.h"
#include "holdfast/options.h"
#include "holdfast/result.h"
#include "holdfast/token.h"

namespace holdfast::detail {

// Who is told how a call ended.
template <typename T>
class Receiver {
 public:
  virtual ~Receiver() = default;

  // On any thread, maybe on the caller's before the call returns; no mutex of the library is held.
  // Must not block, throw or run code of the program. `self`: the library keeps no other reference.
  virtual void complete(std::shared_ptr<Receiver> self, Result<T> result) = 0;
};
template <typename T>
using ReceiverPtr = std::shared_ptr<Receiver<T>>;

// A wait for a lock, or a lease; keeps the client's core.
struct Handle {
  std::shared_ptr<session::Core> core{};
  std::shared_ptr<session::Contender> contender{};
};

struct HOLDFAST_EXPORT Async {
  static void connect(std::string url, ClientOptions options, ReceiverPtr<Client> to);

  static Handle acquire(const Mutex& mutex, AcquireOptions options, ReceiverPtr<Lease> to);
  static Handle acquire(const Client& client, std::string name, Mode mode, AcquireOptions options,
                        ReceiverPtr<Lease> to);
  static Handle try_acquire(const Mutex& mutex, AcquireOptions options,
                            ReceiverPtr<std::optional<Lease>> to);
  static Handle try_acquire(const Client& client, std::string name, Mode mode,
                            AcquireOptions options, ReceiverPtr<std::optional<Lease>> to);
  // The wait ends with kCancelled, or with what came before. Any time, from any thread.
  static void cancel(const Handle& wait);

  static Handle handle(const Lease& lease);
  static void release(const Handle& lease, ReceiverPtr<void> to);
  static void renew(const Handle& lease, ReceiverPtr<void> to);

  static void adopt(const Client& client, const std::string& lease_id, AcquireOptions options,
                    ReceiverPtr<Lease> to);
  static void inspect(const Client& client, std::string name,
                      ReceiverPtr<std::optional<LockInfo>> to);
  static void list(const Client& client, std::string prefix, std::size_t limit,
                   ReceiverPtr<std::vector<LockInfo>> to);
  static void watch(const Client& client, std::string prefix,
                    std::function<void(const LockEvent&)> callback, ReceiverPtr<Watch> to);
  static void break_lock(const Client& client, std::string name, Token token, std::string reason,
                         ReceiverPtr<void> to);
  static void doctor(const Client& client, ReceiverPtr<DoctorReport> to);
  static void close(const Client& client, std::chrono::milliseconds deadline, ReceiverPtr<void> to);

 private:
  friend struct Leases;
  static Lease lease(std::shared_ptr<session::Contender> contender);
};

}  // namespace holdfast::detail
