// The lock service's port: connections in the Redis protocol, and the calls that come over them.
//
//   socket ─ Gate (TLS, log-in) ─ RequestReader ─ Connection ─ Service ─ answers ─ socket
//                                                    └ subscriptions ─ pushes ─┘
//
// Each shard that this server leads is a Service. A native connection names its shard once, when it
// attaches; a request of a lock library goes to the shard of its keys.
//
// Guarantee: a connection gets its replies in the order of its requests. Whatever its client sends,
// or does not read, costs no more than its share: see FrontLimits.
// Not guaranteed: that a connection stays. It is closed when its client breaks the protocol, sends
// no whole request in time, or does not read what it asked for.
//
// Thread-safety: the loop's thread only, but for the constructor. Ownership: the loop and the
// service outlive it. Blocking: never. Time: boot time.
// Errors: listen() says why it cannot.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "holdfast/stores.h"
#include "src/port/service/server_tls.h"
#include "src/server/access/account.h"
#include "src/server/access/gate.h"
#include "src/server/access/users.h"
#include "src/server/service.h"

namespace holdfast::server {

struct FrontLimits {
  std::size_t connections = 16'384;
  // Until its client is known (safety rule 65): so many bytes for each of so many requests, and so
  // much time.
  std::size_t first_bytes = 1'024;
  std::size_t first_requests = 16;
  std::chrono::milliseconds first_time{5'000};
  // A connection with so many unanswered requests waits for all of their answers before its next
  // request. With so many unread bytes it is not read from meanwhile.
  std::size_t unanswered = 1'024;
  // The same bound while other connections ask: each commit of many requests delays the others. It
  // is also that of requests in one turn of the loop, because others wait for those, too.
  // Not guaranteed: equal shares. A connection that asks again after a pause meets the first bound.
  std::size_t unanswered_beside_others = 128;
  std::size_t unread = std::size_t{1} << 20U;
  // Pushes that a client does not read; then it is closed.
  std::size_t unread_pushes = std::size_t{8} << 20U;
  // Bytes of unfinished requests and unread replies of all connections together. The one that goes
  // beyond it is closed.
  std::size_t buffered = std::size_t{512} << 20U;
  std::size_t channels = 4'096;  // Subscriptions of one connection.
  // Acquisitions and looks of one connection in a second; 0: no limit.
  std::size_t rate = 0;
  // The longest time for the answer to a request that was forwarded. A commit may take so long
  // while etcd changes its leader, and a leader that hangs has lost the lead by then.
  std::chrono::milliseconds forwarded{15'000};
  // Connections that are not known yet, in all and of one address (safety rule 65).
  std::size_t strangers = 4'096;
  std::size_t strangers_of_address = 256;
  GateLimits gate{};
};

// The rules about who may come in.
struct FrontDoor {
  UsersPtr users{};          // Null: everybody who reaches the port may do everything.
  port::ServerTlsPtr tls{};  // Null: no encryption.
  bool plaintext = false;    // Beyond this host, too.
  AccountsPtr accounts = std::make_shared<Accounts>();  // Both ports' of one server are the same.
};

struct Greeting {
  std::string version;  // The program's.
  std::string journal;  // "sqlite", "memory".
  std::string place;    // The journal's, for people.
  base::BootInstant started = base::BootClock::now();
};

class Front final {
 public:
  Front(asio::io_context& io, FrontLimits limits, Greeting greeting, std::uint32_t shards = 1);
  ~Front();

  // The shard's requests from now on are that service's.
  void serve(std::uint32_t shard, Service& service);
  // Closes the shard's connections, and those of lock libraries, but goes on listening: until the
  // next serve(), a request for a lock of it goes to the server that leads it, or is refused with
  // that server's address (empty: not known).
  void stand_by(std::uint32_t shard, const std::string& leader);
  // False: this server could not ask its shared journal when it last did.
  void note_journal(bool answers);
  // Before listen(), or later: then connections of users whose line has changed are closed, and new
  // ones get the new certificate. A port that spoke TLS does so for ever.
  void guard(FrontDoor door);
  // For a server of several on one journal: requests of lock libraries go to the server that leads.
  // Before listen(), because log-ins are remembered from then on.
  void forward_to_leaders();
  // For a server of several on one journal: `step_down` makes it hand over, or says why it cannot.
  // It is called on the loop's thread and must not block.
  void step_down_by(std::function<Result<void>()> step_down);
  using Listed = std::function<void(Result<std::vector<ServerMember>>)>;
  using Examined = std::function<void(Result<std::vector<Finding>>)>;
  // `list` calls `done` with all servers on the journal, and `examine` with what operators should
  // know of its store: on the loop's thread, within the call or later. `drain` has the program stop
  // this server, and must not block; without it a request for that is refused.
  struct ForOperators {
    std::function<void(Listed done)> list = [](const Listed& done) {
      done(std::vector<ServerMember>());
    };
    std::function<void(Examined done)> examine = [](const Examined& done) {
      done(std::vector<Finding>());
    };
    std::function<void()> drain{};
  };
  void operate_by(ForOperators calls);
  // Operators should know these, such as a lack of descriptors. `warn` is called on the loop's
  // thread and must not block.
  void warn_by(std::function<void(const std::string&)> warn);
  // "127.0.0.1:7420", "[::1]:0". Errors: kInvalidArgument (no such address, or one that needs users
  // and TLS), kUnavailable (the port is in use), kPermissionDenied.
  Result<void> listen(const std::string& address);
  // With the port that the system chose.
  std::string address() const;
  // This server's address, as clients are told it. Before the loop runs.
  void tell_address(const std::string& address);

  // Takes no more connections, and of one shard no more requests. Requests under way can still be
  // answered.
  void drain();
  // After drain(), when no shard is served any more: takes no more requests at all. It calls `done`
  // when other servers have answered those under way: within the call or later, after about
  // FrontLimits::forwarded at most.
  void settle(std::function<void()> done);
  // Writes what can be written at once, and closes all.
  void close();

  // The shard's service has told this, as a ServiceListener hears it.
  void on_push(std::uint32_t shard, const ClientName& client, const port::Push& push);
  void on_effect(std::uint32_t shard, const machine::Effect& effect, machine::Instant at);
  // Its service has ended: closes the connections.
  void on_stopped(std::uint32_t shard);

 private:
  struct Impl;
  const std::shared_ptr<Impl> impl_;
};

}  // namespace holdfast::server
