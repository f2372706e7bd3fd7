// The inside of Rpc: the thread, the channels, the log-in, and the calls under way.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <grpcpp/alarm.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include "src/base/local_mutex.h"
#include "src/stores/etcd/transport/errors.h"
#include "src/stores/etcd/transport/grpc_messages.h"
#include "src/stores/etcd/transport/rpc.h"

namespace holdfast::stores::etcd {

class WatchStream;

// An object that the completion queue hands back when its operation is done.
class Tag {
 public:
  virtual ~Tag() = default;
  virtual void proceed(bool ok) = 0;
};

// An operation under way, which close() and give_up_server() can cancel.
class Flight {
 public:
  explicit Flight(std::size_t at) : server(at) {}
  virtual ~Flight() = default;
  virtual void cancel() = 0;
  std::size_t server;
};

class Rpc::Impl {
 public:
  static Result<std::unique_ptr<Impl>> make(const EtcdAddress& address);
  ~Impl();

  using ChannelPtr = std::shared_ptr<grpc::Channel>;
  ChannelPtr channel(std::size_t server) const HOLDFAST_EXCLUDES(channels_mutex_);
  ChannelPtr keeper(std::size_t server) const HOLDFAST_EXCLUDES(channels_mutex_);
  grpc::CompletionQueue* queue() { return &queue_; }
  std::size_t servers() const { return address_.servers.size(); }
  std::size_t server_in_use() const { return in_use_; }
  std::string name_of(std::size_t server) const;
  std::string names_of(const std::vector<std::size_t>& servers) const;  // At least one.

  // `start` begins an operation on the queue. False while closing: nothing was begun.
  template <typename Start>
  bool begin(Flight* flight, Start start) HOLDFAST_EXCLUDES(mutex_) {
    const base::LocalLock lock(mutex_);
    if (closing_) return false;
    flights_.insert(flight);
    start();
    return true;
  }
  // Call it before the flight is destroyed.
  void landed(Flight* flight) HOLDFAST_EXCLUDES(mutex_);
  bool closing() const HOLDFAST_EXCLUDES(mutex_);

  // Sets deadline and metadata of a call. Returns the number of the log-in that it uses.
  std::uint64_t prepare(grpc::ClientContext& context, base::BootInstant deadline, bool logged_in)
      HOLDFAST_EXCLUDES(mutex_);
  bool has_login() const { return address_.login.password.has_value(); }
  // Calls `then` when there is a newer log-in than that number, or when logging in has failed.
  void log_in(std::uint64_t stale, base::BootInstant deadline, Then<bool> then)
      HOLDFAST_EXCLUDES(mutex_);

  void leave(std::size_t server);  // Asks another server from now on.
  void give_up_server(std::size_t server) HOLDFAST_EXCLUDES(mutex_);
  // The connections were silent for too long: opens new ones, and cancels the calls that wait.
  void drop_connections(std::size_t server, const ChannelPtr& old)
      HOLDFAST_EXCLUDES(mutex_, channels_mutex_);
  void after(std::chrono::nanoseconds time, std::function<void()> task) HOLDFAST_EXCLUDES(mutex_);

  WatchStream& watches() { return *watches_; }

  void close() HOLDFAST_EXCLUDES(mutex_);

 private:
  explicit Impl(const EtcdAddress& address);
  Result<void> connect();
  ChannelPtr make_channel(std::size_t server) const;
  void run();
  void logged_in(Result<wire::AuthenticateResponse> answer) HOLDFAST_EXCLUDES(mutex_);

  const EtcdAddress address_;
  mutable base::LocalMutex channels_mutex_;
  std::vector<ChannelPtr> channels_ HOLDFAST_GUARDED_BY(channels_mutex_);
  std::vector<ChannelPtr> keepers_ HOLDFAST_GUARDED_BY(channels_mutex_);
  std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::atomic<std::size_t> in_use_ = 0;
  grpc::CompletionQueue queue_;
  std::unique_ptr<WatchStream> watches_;
  std::thread thread_;

  mutable base::LocalMutex mutex_;
  base::LocalCondition landed_;
  bool closing_ HOLDFAST_GUARDED_BY(mutex_) = false;
  bool closed_ HOLDFAST_GUARDED_BY(mutex_) = false;
  std::set<Flight*> flights_ HOLDFAST_GUARDED_BY(mutex_);
  std::string token_ HOLDFAST_GUARDED_BY(mutex_);
  std::uint64_t logins_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  bool logging_in_ HOLDFAST_GUARDED_BY(mutex_) = false;
  std::vector<Then<bool>> awaiting_login_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::stores::etcd
