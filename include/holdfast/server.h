// A lock service inside a program: what `holdfast serve` runs.
//
//   holdfast::ServerOptions options;
//   options.journal = "sqlite:/var/lib/app/locks";
//   auto server = holdfast::Server::start(options).value();
//   // Clients anywhere on this host: Client::connect(server.url()).
//
// Without `users` everybody who reaches the port may take and break every lock, so it must be of
// this host's loopback. Beyond it a server needs users and TLS.
//
// Guarantee: no grant, token or value is told before it is in the journal. So a server that is
// killed and started on the same folder knows every grant that it answered, and every token grows
// on. A release may be answered before: after a crash that lock is then free when its lease ends.
// Not guaranteed: with the journal "memory:", anything after a restart. docs/stores/holdfast.md has
// the guarantees under each fault.
//
// Thread-safety: any thread, but not two at a time. Ownership: until it is stopped it runs a thread
// for its clients and one for the journal of each shard that it leads; on a shared journal one more
// for each shard, and one more for log-ins and handshakes with users or TLS. Blocking: start()
// reads the journal, or finds that another server leads; stop() waits for the last commit.
// Errors: kInvalidArgument (an address or a journal that it cannot have), kStoreInUse (another
// server has the folder), kUnavailable (the port is taken, the disk fails), kPermissionDenied,
// kCorruptState, kVersionMismatch; kUnsupported: left out of this build.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "holdfast/export.h"
#include "holdfast/result.h"

namespace holdfast {

namespace server {
struct ServerAccess;
}

// A server has found this when it began to lead.
struct ServerStart {
  bool new_journal = false;      // It began one; the place had none.
  std::string term{};            // This process' own. Each start begins a new one.
  std::size_t locks = 0;         // Held or waited for.
  std::string restored{};        // Why the journal is a restored copy; empty: it is not.
  std::chrono::seconds quiet{};  // For so long it answers reads only.
};

struct ServerLead {
  bool leads = true;     // A server whose journal is not shared always does.
  std::string leader{};  // The address of the one that does; empty: not known.
  ServerStart found{};   // When this one began to. With several shards: of those that it leads.
  // The journal has so many, and this server leads so many of them.
  std::uint32_t shards = 1;
  std::uint32_t leading = 0;
};

struct ServerOptions {
  // Where clients connect to. Beyond loopback it needs `users`, and TLS or `plaintext`. Port 0: the
  // system chooses one.
  std::string listen = "127.0.0.1:7420";
  // Where the HTTP port listens; empty: there is none. It has the rules of `listen`, and the same
  // users and certificate.
  std::string http{};
  // Names by which HTTP clients may call this server, with ',' between them, beside localhost, the
  // address itself and the host of `advertise`. Others are refused: see docs/stores/holdfast.md.
  std::string http_hosts{};
  // "sqlite:DIR", a folder on a local disk, which is made; "etcd://HOST,HOST,HOST/PREFIX", which
  // any number of servers may share: one leads, and the others stand by; or "memory:".
  std::string journal{};
  // Only for a new journal: its locks are spread over so many shards, at most 64. In etcd each has
  // a leader of its own, and the servers on the journal share them evenly. The number is kept for
  // good; another one is refused. 0: as many as the journal has; a new one gets eight in etcd, and
  // one otherwise. Several shards cannot take several locks in one step.
  std::uint32_t shards = 0;
  // The address that servers on a shared journal tell of this one. Empty: that of `listen`.
  std::string advertise{};
  // A file of users, the hashes of their passwords and their rights (docs/stores/holdfast.md).
  // Empty: there are none.
  std::string users{};
  // Each connection may take or look at so many locks in a second, at either port; 0: no limit.
  // Beyond it the server asks to come again. Renewals and releases do not count on the main port.
  // The file of users has limits for each of them.
  std::uint32_t connection_rate = 0;
  // The server's certificate chain in PEM, which may hold the key, too, and the key. Empty: no TLS.
  std::string tls_cert{};
  std::string tls_key{};
  // On a shared journal with TLS: the certificates, in PEM, that vouch for the other servers' ones,
  // to which this server forwards requests. Empty: the system's.
  std::string tls_ca{};
  // Beyond loopback without TLS: passwords and locks can be read and changed on the way, unless the
  // network itself encrypts.
  bool plaintext = false;
  // A restored copy of a journal grants nothing for 24 h, because clients may count on what it does
  // not know. True: no client of that journal runs any more, so it grants at once.
  bool clients_stopped = false;
  // On a shared journal: this server leads from now on, or stands by; with several shards, it leads
  // other ones than before. Called as on_stopped.
  std::function<void(const ServerLead& lead)> on_lead{};
  // Somebody with the right `admin`, or without users anybody, asks this server to stop in order
  // (`holdfast server drain`). The program should then call stop() on a thread of its own, and end;
  // until it does, the server goes on as before, and the asker waits. Called as on_stopped, once
  // for each request. Empty: such requests are refused, because only the program can end itself.
  std::function<void()> on_drain{};
  // Operators should know this: the disk is nearly full, full, or has room again; there are no more
  // descriptors. Called as on_stopped, once for each beginning and end; it must not block.
  std::function<void(const std::string& what)> on_warning{};
  // The server has ended by itself: another process took the journal over, or the disk failed. Its
  // state is not known then, so the process should end. On a shared journal it stands by instead,
  // and this means that it cannot: the journal is damaged, or refuses this server. Called on a
  // thread of the server; it must not call the server.
  std::function<void(const Error& reason)> on_stopped{};
};

class HOLDFAST_EXPORT Server {
 public:
  static Result<Server> start(ServerOptions options);

  Server(Server&& other) noexcept;
  Server& operator=(Server&& other) noexcept;
  ~Server();  // As stop().

  std::string address() const;       // "127.0.0.1:7420", with the port that was chosen.
  std::string http_address() const;  // As address(), of the HTTP port; empty: there is none.
  std::string url() const;           // "holdfast://127.0.0.1:7420"; holdfasts:// with TLS.
  std::string place() const;         // Where the journal lies, for people.
  // Its own, drawn when it was made; empty while it stands by, and with several shards, each of
  // which has one.
  std::string journal_id() const;
  ServerLead lead() const;

  // Reads the users and the certificate again. Connections of users whose line has changed are
  // closed; their clients log in again, and keep their leases. On an error nothing changes.
  // Errors: kInvalidArgument, kPermissionDenied, naming the file; kClosed: after stop().
  Result<void> reload();

  // Takes no more requests, commits and answers what is under way, gives up the lead, and closes
  // everything. Requests that it has forwarded to another server have 15 s for their answers.
  // Clients keep their leases, and find them again at the next server on this journal, which
  // lengthens none.
  void stop();

 private:
  friend struct server::ServerAccess;
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast
