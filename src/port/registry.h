// How a store is made from its URL.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/options.h"
#include "holdfast/result.h"
#include "holdfast/stores.h"
#include "src/base/clock.h"
#include "src/port/service/journal.h"
#include "src/port/service/members.h"
#include "src/port/service/server_tls.h"
#include "src/port/service/shards.h"
#include "src/port/store.h"
#include "src/port/store_url.h"

namespace asio {
class io_context;
}

namespace holdfast::port {

// A question to a factory about the tables of its store. The factory fills in the answer and
// returns no store. It fills in nothing where the URL's options leave no tables to make.
struct SchemaJob {
  bool print = false;  // Only the SQL is asked for: no server is contacted.
  std::string sql{};
  StoreSchema made{};
};

// A question to a factory about its chain of stores. The factory fills in the answer and returns no
// store.
struct ChainJob {
  std::optional<std::uint32_t> switch_to{};  // From 1; 0: the next one. None: only look.
  ChainStatus found{};
};

// A question to a factory about a journal in its store, for the lock service. The factory fills in
// the answer and returns no store.
struct JournalJob {
  enum class Wish : std::uint8_t {
    kJournal,
    kMembers,  // The servers on that journal.
    kShards,   // How many shards it has. A new one gets as many as `shard.of`; 0: no wish.
  };
  Wish wish = Wish::kJournal;
  ShardNumber shard{};  // kShards: the answer is in `shard.of`.
  std::unique_ptr<Journal> made{};
  std::unique_ptr<Members> members{};
};

// A question to the factory of the lock service's store about its servers, one by one. The factory
// fills in the answer and returns no store.
struct ServersJob {
  enum class Wish : std::uint8_t { kStatus, kMembers, kStepDown, kDrain };
  Wish wish = Wish::kStatus;
  std::string address{};  // kStepDown and kDrain: the server's; empty: the URL tells.
  std::chrono::milliseconds patience{};  // kDrain.
  std::vector<ServerStatus> found{};
  std::vector<ServerMember> members{};
  std::string asked{};  // To step down, or to stop.
};

// A question to the factory of the lock service's store: TLS for the service itself. The factory
// fills in the answer and returns no store. Errors: kInvalidArgument, kPermissionDenied, naming the
// file.
struct ServerTlsJob {
  std::string certificate{};  // The path of a chain in PEM; it may hold the key, too.
  std::string key{};
  // The certificates that are trusted when this server connects to another one; empty: the
  // system's.
  std::string trusted{};
  ServerTlsPtr made{};
};

struct RecordsJob;        // records.h.
struct NativeCounterJob;  // native_counter.h.

struct StoreContext;

// Never a null pointer, unless one of the context's jobs is set.
// `url` keeps only the options that this store should know; an unknown one is kInvalidArgument.
using StoreFactory = Result<std::unique_ptr<Store>> (*)(StoreUrl url, const StoreContext& context);

struct StoreContext {
  Loop* loop = nullptr;            // Outlives the store.
  Listener* listener = nullptr;    // Outlives the store.
  std::string owner;               // The client's own id, unique in the world.
  asio::io_context* io = nullptr;  // The loop's own, for stores that talk to sockets.
  std::string name_space{};        // The prefix of all names: permissions may end there.
  // By then it is made, or says why not; a store may have less time for that.
  base::BootInstant open_by = base::BootInstant::max();
  // Only set where the manifest has `has_schema`.
  SchemaJob* schema = nullptr;
  // Only set where the manifest has `is_chain`.
  ChainJob* chain = nullptr;
  // Only set where the manifest has `has_journal`.
  JournalJob* journal = nullptr;
  // Only set where the manifest has `has_records`.
  RecordsJob* records = nullptr;
  // Only set where the manifest names a `counter`.
  NativeCounterJob* counter = nullptr;
  // Only set for the store of the lock service.
  ServersJob* servers = nullptr;
  ServerTlsJob* server_tls = nullptr;
  // The other stores, by the scheme of their URL, for stores that are made of some.
  // Errors: kInvalidArgument (no such scheme), kUnsupported (left out of this build).
  Result<StoreFactory> (*find)(std::string_view scheme) = nullptr;
};

}  // namespace holdfast::port
