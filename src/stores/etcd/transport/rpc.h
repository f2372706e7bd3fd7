// Calls to the servers of one etcd cluster.
//
// One server is asked at a time. If it cannot be reached, or sees no leader, the next one is asked.
// A call that was surely not applied, or only reads, continues there by itself. Log-in and its
// renewal happen here, too.
//
// Thread-safety: all functions from any thread; make() and close() not from the loop. Callbacks run
// on the loop, one at a time, never inline, and must not block.
// Ownership: close() drops callbacks without calling them. Close the object before it is destroyed,
// and before the loop has ended.
// Time: deadlines on the boot-time clock. Errors: as errors.h says; kLost: the lease is gone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/stores/etcd/url.h"
#include "src/stores/etcd/wire.pb.h"

namespace asio {
class io_context;
}

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
HOLDFAST_ETCD_METHOD("KV", "Compact", Compaction);
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
  std::optional<std::size_t> server{};  // Only this server; otherwise the one in use.
};

// The events of a watch. One of the kinds below at a time.
struct WatchNews {
  bool created = false;  // The watch begins after this revision. Repeat older readings.
  std::int64_t revision = 0;
  std::vector<wire::Event> events;
  std::optional<Error> refused;  // The server refuses the watch: a permission is missing.
};

class Rpc {
 public:
  class Impl;

  template <typename T>
  using Then = std::function<void(Result<T>)>;

  // The message of an answer.
  using Answered = std::function<void(Result<std::string_view>)>;

  // Does not wait for the servers. Without `io` it has a loop and a thread of its own.
  // Errors: kInvalidArgument (TLS files).
  static Result<std::unique_ptr<Rpc>> make(const EtcdAddress& address,
                                           asio::io_context* io = nullptr);
  ~Rpc();

  template <typename Request>
  void call(Request request, How how, Then<typename Method<Request>::Response> then);

  // Sends one keepalive of a lease, on a connection reserved for keepalives. Returns the time to
  // live in seconds; 0 if the lease does not exist. Errors: kUnavailable.
  void keep_alive(std::size_t server, std::int64_t lease, base::BootInstant deadline,
                  Then<std::int64_t> then);

  // Runs the task after that time, or drops it when the object is closed.
  void after(std::chrono::nanoseconds time, std::function<void()> task);

  // Reports changes of the keys [key, end) from now on (of the key alone if `end` is empty). All
  // watches share one stream. After a lost stream the watch is created again, and reported as
  // created.
  std::uint64_t watch(std::string key, std::string end, std::function<void(const WatchNews&)> sink);
  // On the loop, the sink is not called any more; elsewhere it may be for a moment.
  void end_watch(std::uint64_t watch);

  std::size_t servers() const;
  std::size_t server_in_use() const;
  // The server does not answer: asks the next one from now on, and ends the connections to this one
  // with the calls that wait there.
  void give_up_server(std::size_t server);
  std::string name_of(std::size_t server) const;

  // Ends the calls under way. Idempotent.
  void close();

 private:
  explicit Rpc(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace holdfast::stores::etcd
