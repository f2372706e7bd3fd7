// Calls to the servers of one etcd cluster, over gRPC.
//
// One server is asked at a time; when it cannot be reached, or sees no leader, the next one is. A
// call that was surely not applied, or only reads, goes on there by itself. Log-in and its renewal
// happen here, too.
//
// Thread-safety: all functions from any thread. Callbacks run on the one thread of this object,
// one at a time, never inline, and must not block.
// Ownership: callbacks are dropped uncalled by close(); the object is closed before it goes.
// Time: deadlines on the boot-time clock. Errors: as errors.h says; kLost: the lease is gone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/stores/etcd/url.h"
#include "src/stores/etcd/wire.pb.h"

namespace holdfast::stores::etcd {

template <typename Request>
struct Method;

#define HOLDFAST_ETCD_METHOD(Service, Name, Prefix)                    \
  template <>                                                          \
  struct Method<wire::Prefix##Request> {                               \
    using Response = wire::Prefix##Response;                           \
    static constexpr char kPath[] = "/etcdserverpb." Service "/" Name; \
  }
HOLDFAST_ETCD_METHOD("KV", "Range", Range);
HOLDFAST_ETCD_METHOD("KV", "Put", Put);
HOLDFAST_ETCD_METHOD("KV", "DeleteRange", DeleteRange);
HOLDFAST_ETCD_METHOD("KV", "Txn", Txn);
HOLDFAST_ETCD_METHOD("Lease", "LeaseGrant", LeaseGrant);
HOLDFAST_ETCD_METHOD("Lease", "LeaseRevoke", LeaseRevoke);
HOLDFAST_ETCD_METHOD("Lease", "LeaseTimeToLive", LeaseTimeToLive);
HOLDFAST_ETCD_METHOD("Cluster", "MemberList", MemberList);
HOLDFAST_ETCD_METHOD("Maintenance", "Status", Status);
HOLDFAST_ETCD_METHOD("Maintenance", "Alarm", Alarm);
HOLDFAST_ETCD_METHOD("Auth", "Authenticate", Authenticate);
#undef HOLDFAST_ETCD_METHOD

struct How {
  base::BootInstant deadline{};
  bool reads_only = false;
  std::optional<std::size_t> server{};  // This one only; otherwise the one in use.
};

// A watch's events: one of these at a time.
struct WatchNews {
  bool created =
      false;  // It is in place from behind this revision on: what was read before, read again.
  std::int64_t revision = 0;
  std::vector<wire::Event> events;
  std::optional<Error> refused;  // It will not be: no rights.
};

class Rpc {
 public:
  class Impl;

  template <typename T>
  using Then = std::function<void(Result<T>)>;

  // Does not wait for the servers. Errors: kInvalidArgument, kPermissionDenied (files of TLS).
  static Result<std::unique_ptr<Rpc>> make(const EtcdAddress& address);
  ~Rpc();

  template <typename Request>
  void call(Request request, How how, Then<typename Method<Request>::Response> then);

  // One keepalive of a lease, on a connection kept for that. The time to live in seconds; 0: there
  // is no such lease. Errors: kUnavailable.
  void keep_alive(std::size_t server, std::int64_t lease, base::BootInstant deadline,
                  Then<std::int64_t> then);

  // Runs it after that time; soon when the object is closed before: see closing().
  void after(std::chrono::nanoseconds time, std::function<void()> task);
  bool closing() const;

  // Tells what happens to the keys [key, end) from now on (`end` empty: to the key alone), over one
  // stream for all. After a lost stream it is created anew, and told so.
  std::uint64_t watch(std::string key, std::string end, std::function<void(const WatchNews&)> sink);
  // The sink may be called once more while this runs on another thread.
  void end_watch(std::uint64_t watch);

  std::size_t servers() const;
  std::size_t server_in_use() const;
  // This one does not answer: the next is asked, and those who wait for it are told.
  void give_up_server(std::size_t server);
  std::string name_of(std::size_t server) const;

  // Ends what is under way; from a thread that is not this object's. Idempotent.
  void close();

 private:
  explicit Rpc(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::stores::etcd
