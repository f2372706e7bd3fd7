// Requests of lock libraries at a server that does not lead: the leader does them, and its answer
// becomes the connection's next one (docs/design/0075-forwarding.md).
//
// Guarantee: answers keep the order of the requests. A request that another server has forwarded is
// not forwarded again. Rights and limits are the leader's, for the client's own user.
// Not guaranteed: an answer. Where the outcome is not known, the client's connection is closed.
//
// Thread-safety: the loop's thread. Ownership: the loop and the scratch outlive it. It outlives its
// connections. Blocking: never.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "src/port/alarms.h"
#include "src/port/service/server_tls.h"
#include "src/server/access/gate.h"
#include "src/server/front/connection.h"
#include "src/server/front/ready_set.h"

namespace holdfast::server {

class Forwarder {
 public:
  // `patience`: the longest time for an answer.
  Forwarder(asio::io_context& io, std::shared_ptr<ReadySet> ready, std::string& scratch,
            std::chrono::milliseconds patience);

  // For connections from now on. Both may be null; `gate` not where there is `tls`.
  void use(port::ServerTlsPtr tls, Gate* gate);

  // An answer that takes longer than `lease` is not passed on, because that lease may have ended.
  void forward(Connection& connection, const std::string& leader, const Words& words,
               std::chrono::milliseconds lease);
  // SUBSCRIBE and UNSUBSCRIBE: each channel is joined at the server that `leader_of` names, or by
  // `here` where that names none. False: nothing was done, because they are all here, or it is
  // another command.
  bool run_channels(Connection& connection, const Words& words,
                    const std::function<std::string(const std::string&)>& leader_of,
                    const std::function<void(const Words&)>& here);
  // Its links end with a connection.
  static void leave(Connection& connection);

  // Before the loop ends.
  void stop() { static_cast<void>(alarms_.stop()); }

 private:
  LeaderLinkPtr link(Connection& connection, const std::string& leader);
  void subscribe(Connection& connection, const std::string& leader, const std::string& channel);
  void unsubscribe(Connection& connection, const std::string& channel);

  asio::io_context& io_;
  const std::shared_ptr<ReadySet> ready_;
  std::string& scratch_;
  const std::chrono::milliseconds patience_;
  port::Alarms alarms_;
  port::ServerTlsPtr tls_;
  Gate* gate_ = nullptr;
};

}  // namespace holdfast::server
