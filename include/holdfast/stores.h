// The stores that this library knows, as data: for programs that let people choose one, complete
// its URL, or keep its secrets off a screen. Each is declared in src/stores/NAME/manifest.h. The
// functions are for operators of tables, of a chain of stores, and of Holdfast's own servers.
//
// Guarantee: the facts hold for every server of that kind and need no connection. The guarantees of
// one running server are in Client::guarantees(). Not guaranteed: that the store is part of this
// build, or that its module is installed; Client::connect() tells.
// Thread-safety: constants; the functions may be called from any thread. Errors: none, except where
// a function names them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/result.h"

namespace holdfast {

// The part before the `@` of a store's URL.
enum class StoreLogin {
  kNone,      // The store has no log-in: an `@` is part of a path.
  kPassword,  // "user:password"; the password is secret.
  kToken,     // One token, all of it secret.
};

struct StoreExample {
  std::string_view url;
  std::string_view about;
};

struct StoreKind {
  std::string_view name;  // "consul"; also the label of its tests and the end of its module's name.
  std::string_view title;                        // "Consul"
  std::span<const std::string_view> url_starts;  // "consul://", "consuls://": one for each scheme.
  std::string_view pattern;                      // "consul://HOST, consuls://HOST"
  std::span<const StoreExample> examples;        // A few URLs that could be real.
  StoreLogin login{};
  std::string_view secret_variable{};  // The password or token, where the URL names none.
  bool path_is_number = false;         // "/3" after the host: no name can be taken for a password.
  std::span<const std::string_view> open_options{};  // Its URL options that hold no secret.
  // As `holdfast doctor --require` names them: "fenced", "survives-failover" ...
  std::span<const std::string_view> leaves_out{};
  bool bound_to_client = false;     // As Guarantees::bound_to_client.
  bool shared_by_processes = true;  // false: it lives and dies with one process.
  bool over_network = true;         // false: it is on this host, and neither up nor away.
  bool has_schema = false;          // It keeps its locks in tables that somebody must make.
  bool is_chain = false;            // It uses one of several stores: chain_status() tells which.
  bool is_service = false;          // Holdfast's own servers: service_status() tells of them.
  bool has_journal = false;         // `holdfast serve` can keep its journal in it.
  bool has_records = false;         // Ids can keep worker numbers and counters in it.
  // The counter that ids::StoreCounter raises: "a string key, by INCRBY". Empty: there is none.
  std::string_view counter{};
  // Records and counters may lose these answered changes, without a restored backup. Empty: none.
  // IdGuarantees::forgets tells it of one running server.
  std::string_view may_forget{};
};

// In the order of registration.
HOLDFAST_EXPORT std::span<const StoreKind> known_stores() noexcept;

// The store whose scheme the URL begins with, in letters of either case; nullptr: none.
HOLDFAST_EXPORT const StoreKind* store_of_url(std::string_view url) noexcept;

struct StoreSchema {
  std::string place;     // "the schema holdfast of postgres://db.example:5432/app"
  int format = 0;        // The version of the tables' layout.
  bool created = false;  // false: the tables were there.
};

// Makes the tables of a store, where they are not there, and checks their format. Client::connect()
// does the same, unless the URL has `create=no`; this function makes them in any case.
//
// Guarantee: calling it again, or from several hosts at once, does no harm. nullopt: a store of
// this kind, or with these URL options, has no tables to make.
// Blocking: until the server has answered; 10 s at most beyond the connect_timeout of the URL.
// Errors: as of Client::connect(): kInvalidArgument, kUnavailable, kPermissionDenied,
// kVersionMismatch (the tables have another format), kUnsupported (the store was left out).
HOLDFAST_EXPORT Result<std::optional<StoreSchema>> make_store_schema(std::string_view url);

// The SQL that makes these tables, for an administrator to run with the server's own client.
// Contacts no server. nullopt: as above. Errors: kInvalidArgument, kUnsupported, and
// kPermissionDenied for a password's file that cannot be read.
HOLDFAST_EXPORT Result<std::optional<std::string>> store_schema_sql(std::string_view url);

// The state of a chain of stores, of which one is used at a time.
struct ChainStatus {
  std::uint32_t place = 0;   // The store that is used, or will be after the drain; from 1.
  std::uint32_t stores = 0;  // The length of the chain.
  std::string store;         // Its URL without credentials.
  std::uint32_t epoch = 0;   // The first part of the fencing tokens; 0: the chain was never used.
  bool draining = false;     // It is being switched: nothing is granted.
};

// Which store a chain uses. Contacts its last store only, and changes nothing.
// Errors: as of Client::connect(); kUnsupported: the URL's store is no chain.
HOLDFAST_EXPORT Result<ChainStatus> chain_status(std::string_view url);

// Has the chain use its store number `place`, from 1; 0: the next one. All holders lose their locks
// first. Answers the state in the end.
// Blocking: for the drain, a lease or more. Errors: as chain_status(); kInvalidArgument: no such
// place; kUnavailable: that store cannot be used, so nothing was switched, or, if it went away only
// during the drain, another one is used now; kTimedOut: it is still draining.
HOLDFAST_EXPORT Result<ChainStatus> switch_chain(std::string_view url, std::uint32_t place);

// One server of the lock service, as it describes itself.
struct ServerStatus {
  std::string address{};  // As the URL names it.
  std::string trouble{};  // Why it did not answer; the rest is empty then.
  bool refused = false;   // It answered, and refuses this log-in: `trouble` says what to correct.
  bool leads = false;
  // The leader's address, while this server stands by; empty: not known. With several shards one
  // address for each, "A,,B".
  std::string leader{};
  std::string version{};
  std::string journal_id{};
  std::string place{};  // The journal's folder, or its etcd; empty: a server of before.
  std::string term{};
  std::uint64_t pid = 0;
  std::chrono::seconds uptime{};
  std::uint64_t connections = 0;
  std::uint64_t holders = 0;
  std::uint64_t waiters = 0;
  bool full = false;  // The journal takes nothing: only renewals go on.
  // False: the journal does not answer, as an etcd without a majority; nothing is granted.
  bool journal_answers = true;
  std::uint32_t shards = 1;   // The service has so many.
  std::uint32_t leading = 0;  // This server leads so many of them:
  std::vector<std::uint32_t> led{};
  // The journal is a restored copy: nothing is granted for so long. Zero: it is not.
  std::chrono::seconds quiet{};
  std::vector<std::uint32_t> quiet_shards{};  // With several shards: of these, and no others.
  // How full the journal's disk or etcd's quota is, in percent. 0: unknown, or the server leads
  // nothing. At 100 nothing is granted.
  std::uint32_t disk_percent = 0;
  bool nearly_full = false;  // From 80 % on, as the server itself warns.
};

// One server of those on a journal, as it has put itself on their list.
struct ServerMember {
  std::string address{};  // That of ServerOptions::advertise, or where it listens.
  std::string version{};  // Empty: not known, because its entry is of another version.
  bool leads = false;     // False: it stands by.
  // It has led or stood by since then, by its own wall clock. The epoch: not known.
  std::chrono::system_clock::time_point since{};
  std::uint32_t shards = 0;  // It leads so many.
  std::string http{};        // Where other servers reach its HTTP port; empty: none is known.
  // service_members(): why it did not answer at this address; empty: it did. The rest is what the
  // list has: a server that has died stays on it for some seconds.
  std::string trouble{};
  bool refused = false;  // As ServerStatus::refused.
};

// Asks each server that the URL names, all at the same time, and changes nothing. It also asks the
// servers that are said to lead a shard which no named server leads. They come last.
// Errors: as of Client::connect(), except for servers that do not answer; kUnsupported: the store
// is not the lock service.
HOLDFAST_EXPORT Result<std::vector<ServerStatus>> service_status(std::string_view url);

// Has the server that leads hand its locks over to another one on the same journal, as its orderly
// end does: no lease is lengthened, and holders keep theirs. Answers the address of the server that
// was asked; service_status() tells who leads then. If no other server takes over within some
// seconds, the same one leads again. With several shards a server hands over all that it leads, and
// takes none for 6 s; afterwards the servers share them evenly again. `address`: the server's. The
// URL need not name it. With several shards and several servers in the URL it must be given.
// Errors: kInvalidArgument (it is not known which server), kUnsupported (the journal is not shared,
// so no other server can lead; with several shards, this one leads none, or no other server is
// there), kPermissionDenied, kUnavailable (no server leads).
HOLDFAST_EXPORT Result<std::string> step_down(std::string_view url, std::string_view address = {});

// All servers on the journal of the first server of the URL that answers, also those that the URL
// does not name. One that has died is on the list for some seconds more, and its `trouble` says so:
// each of them is asked, all at the same time. A journal in a folder or in memory has one server
// only.
// Errors: kUnsupported (the store is not the lock service, or the server is of an older version),
// kPermissionDenied (no admin), kUnavailable (no server answers, or its journal does not).
HOLDFAST_EXPORT Result<std::vector<ServerMember>> service_members(std::string_view url);

// Asks one server to stop in order: it answers what is under way, hands over the lead, and ends.
// Holders keep their leases, and no lease is lengthened. `address`: the server's, which the URL may
// leave out; empty: the URL names only this one. Answers the server's address once it is gone, or
// once another process answers there. Not guaranteed: that it stopped in order, since a server that
// is killed meanwhile looks the same from here.
// Blocking: until then, `patience` at most.
// Errors: kInvalidArgument (which server?), kUnsupported (it is not the lock service, or its
// program has no ServerOptions::on_drain), kPermissionDenied (a wrong log-in, or no admin),
// kUnavailable (it does not answer), kTimedOut: it was asked and is still there; the message says
// what it waits for.
HOLDFAST_EXPORT Result<std::string> drain_server(std::string_view url, std::string_view address,
                                                 std::chrono::milliseconds patience);

}  // namespace holdfast
