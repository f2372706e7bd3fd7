#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/stores.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/client/ask.h"
#include "src/client/registry.h"
#include "src/port/registry.h"
#include "src/port/store_url.h"
#include "src/server/access/server_tls.h"
#include "src/server/journal/folder_shards.h"
#include "src/server/journal/journal.h"
#include "src/server/journal/memory_journal.h"
#include "src/server/journal/sqlite_journal.h"

namespace holdfast::server {

Result<void> MemoryJournal::open() {
  const auto drawn = base::random_128();
  id_ = base::to_hex(drawn.high, drawn.low);
  // A restarted server has another journal, whose terms nobody compares with these.
  term_ = "1-" + id_.substr(0, 8);
  return {};
}

namespace {

constexpr std::chrono::seconds kOpening{10};
constexpr std::string_view kSqlite = "sqlite:";

Error not_a_journal(const std::string& url) {
  std::string others;
  for (const StoreKind& kind : known_stores()) {
    if (kind.has_journal) others += ", " + std::string(kind.url_starts.front()) + "HOST,HOST,HOST";
  }
  return {Errc::kInvalidArgument,
          "journal '" + url + "': write sqlite:FOLDER" + others + ", or memory: to keep nothing"};
}

Result<std::string> folder_of_url(const std::string& url) {
  std::string folder = url.substr(kSqlite.size());
  if (folder.starts_with("//")) folder.erase(0, 2);
  if (const auto mark = folder.find('?'); mark != folder.npos) {
    return Error(Errc::kInvalidArgument, "journal '" + url + "': " + folder.substr(mark) +
                                             " is not understood, because sqlite:FOLDER has no "
                                             "options; --data takes any name of a folder");
  }
  if (folder.empty()) return not_a_journal(url);
  return folder;
}

// Has the store of that URL do the job.
Result<void> ask_for_journal(const std::string& url, port::JournalJob& job) {
  const StoreKind* const kind = store_of_url(url);
  if (kind == nullptr || !kind->has_journal) return not_a_journal(url);
  auto parsed = port::StoreUrl::parse(url);
  if (!parsed) return parsed.error();
  // A client may mean the etcd of its own host, but locks of the wrong cluster are lost locks.
  if (parsed->authority.empty()) {
    return Error(Errc::kInvalidArgument, "journal '" + url + "' names no host: write " +
                                             parsed->scheme + "://HOST,HOST,HOST/PREFIX");
  }
  const auto factory = client::find_store(parsed->scheme);
  if (!factory) return factory.error();
  port::StoreContext context;
  context.journal = &job;
  context.open_by = base::BootClock::now() + kOpening;
  if (const auto done = client::ask_store(*factory, *std::move(parsed), context); !done) {
    return Error(done.error().code(), "journal: " + done.error().message());
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Journal>> make_journal(const std::string& url, port::ShardNumber shard) {
  if (url == "memory:") return std::unique_ptr<Journal>(std::make_unique<MemoryJournal>());
  if (url.starts_with(kSqlite)) {
    const auto folder = folder_of_url(url);
    if (!folder) return folder.error();
    SqliteJournalOptions options{shard_folder(*folder, shard.number)};
    options.shard = shard;
    return std::unique_ptr<Journal>(std::make_unique<SqliteJournal>(std::move(options)));
  }
  port::JournalJob job;
  job.shard = shard;
  if (const auto done = ask_for_journal(url, job); !done) return done.error();
  return std::move(job.made);
}

Result<std::unique_ptr<port::Members>> make_members(const std::string& url, std::uint32_t shards) {
  port::JournalJob job;
  job.wish = port::JournalJob::Wish::kMembers;
  job.shard.of = shards;
  if (const auto done = ask_for_journal(url, job); !done) return done.error();
  return std::move(job.members);
}

Result<std::uint32_t> fix_shards(const std::string& url, std::uint32_t wanted) {
  if (wanted > port::kMostShards) {
    return Error(Errc::kInvalidArgument,
                 "a journal has at most " + std::to_string(port::kMostShards) + " shards");
  }
  if (url == "memory:") return std::max(wanted, 1U);
  if (url.starts_with(kSqlite)) {
    const auto folder = folder_of_url(url);
    return folder ? fix_folder_shards(*folder, wanted) : folder.error();
  }
  port::JournalJob job;
  job.wish = port::JournalJob::Wish::kShards;
  job.shard.of = wanted;
  if (const auto done = ask_for_journal(url, job); !done) return done.error();
  return job.shard.of;
}

Result<port::ServerTlsPtr> make_server_tls(const std::string& certificate, const std::string& key,
                                           const std::string& trusted) {
  if (certificate.empty()) {
    return Error(Errc::kInvalidArgument, "a TLS key needs its certificate: --tls-cert FILE");
  }
  const auto factory = client::find_store("holdfast");
  if (!factory) return Error(factory.error().code(), "TLS: " + factory.error().message());
  port::ServerTlsJob job{certificate, key, trusted, {}};
  port::StoreContext context;
  context.server_tls = &job;
  if (const auto done = client::ask_store(*factory, {}, context); !done) return done.error();
  return job.made;
}

}  // namespace holdfast::server
