// The inside of Rpc: the loop, the connections, and the log-in. All but the atomics is the loop's.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "src/base/jitter.h"
#include "src/stores/etcd/transport/delays.h"
#include "src/stores/etcd/transport/errors.h"
#include "src/stores/etcd/transport/http2_link.h"
#include "src/stores/etcd/transport/rpc.h"

namespace holdfast::stores::etcd {

class WatchStream;

using LinkPtr = std::shared_ptr<Http2Link>;

// The connection to one server, and what became of the last one.
struct ServerLink {
  LinkPtr link;
  std::chrono::milliseconds pause{0};
  base::BootInstant not_before{};
  Refusal why;
};

class Rpc::Impl : public std::enable_shared_from_this<Impl> {
 public:
  static Result<std::shared_ptr<Impl>> make(const EtcdAddress& address, asio::io_context* io);
  ~Impl();

  void send(const char* path, std::string request, How how, Rpc::Answered then);
  void keep_alive(std::size_t server, std::int64_t lease, base::BootInstant deadline,
                  Then<std::int64_t> then);

  // Runs the task on the loop, unless this object has gone: now if the caller is there.
  template <typename Task>
  void on_loop(Task task) {
    if (io_.get_executor().running_in_this_thread()) return task();
    asio::post(io_, [weak = weak_from_this(), task = std::move(task)]() mutable {
      if (const auto self = weak.lock()) task();
    });
  }
  // Runs the task on the loop, later.
  template <typename Task>
  void post(Task task) {
    asio::post(io_, std::move(task));
  }

  enum class Use { kCalls, kKeepalives };
  // Null while the server is not asked, because a connection to it has just failed: see why_not().
  LinkPtr link(std::size_t server, Use use = Use::kCalls);
  Refusal why_not(std::size_t server, Use use = Use::kCalls) const {
    return link_to(server, use).why;
  }
  std::size_t servers() const { return address_.servers.size(); }
  std::size_t server_in_use() const { return in_use_; }
  std::string name_of(std::size_t server) const;
  std::string names_of(const std::vector<std::size_t>& servers) const;  // At least one.

  const std::string& token() const { return token_; }
  std::uint64_t logins() const { return logins_; }
  bool has_login() const { return address_.login.password.has_value(); }
  // Calls `then` when there is a newer log-in than that number, or when logging in has failed.
  void log_in(std::uint64_t stale, base::BootInstant deadline, Then<bool> then);

  void leave(std::size_t server);  // Asks another server from now on.
  void give_up_server(std::size_t server);
  void after(std::chrono::nanoseconds time, std::function<void()> task);
  WatchStream& watches() { return *watches_; }
  bool closing() const { return closing_; }
  void close();

 private:
  struct OwnLoop;

  Impl(const EtcdAddress& address, std::shared_ptr<TlsSettings> tls, asio::io_context* io);
  ServerLink& link_to(std::size_t server, Use use) {
    return (use == Use::kCalls ? calls_ : keepalives_)[server];
  }
  const ServerLink& link_to(std::size_t server, Use use) const {
    return (use == Use::kCalls ? calls_ : keepalives_)[server];
  }
  void on_ended(const Http2Link* link, ServerLink& its, const Refusal& why, bool was_up);
  void logged_in(const Result<std::string_view>& answer);

  const EtcdAddress address_;
  const std::shared_ptr<TlsSettings> tls_;
  const std::unique_ptr<OwnLoop> own_;  // Null: the loop is the client's.
  asio::io_context& io_;
  std::vector<ServerLink> calls_;
  std::vector<ServerLink> keepalives_;
  std::vector<LinkPtr> links_;  // All that have not ended.
  std::atomic<std::size_t> in_use_ = 0;
  std::atomic<bool> closing_ = false;
  base::Jitter jitter_;
  Delays delays_;
  std::unique_ptr<WatchStream> watches_;

  std::string token_;
  std::uint64_t logins_ = 0;
  bool logging_in_ = false;
  std::vector<Then<bool>> awaiting_login_;
};

}  // namespace holdfast::stores::etcd
