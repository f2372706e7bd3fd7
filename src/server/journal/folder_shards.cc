#include "src/server/journal/folder_shards.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "src/port/service/shards.h"
#include "src/server/journal/sqlite_journal.h"

namespace holdfast::server {
namespace {

SqliteJournalOptions look_at(const std::string& folder, std::uint32_t shard) {
  SqliteJournalOptions options{shard_folder(folder, shard)};
  options.look_only = true;
  return options;
}

// The first shard's database is not there. Nothing begins where others have been used.
Result<void> refuse_orphans(const std::string& folder) {
  for (std::uint32_t shard = 1; shard < port::kMostShards; ++shard) {
    SqliteJournal one(look_at(folder, shard));
    const auto opened = one.open();
    if (opened ? one.term().empty() : one.is_empty()) continue;
    return lost_shard(folder + "/journal.db", "is missing, or empty without its log",
                      one.place() + " has a shard", folder);
  }
  return {};
}

Result<void> check_other(const std::string& folder, std::uint32_t shard,
                         const SqliteJournal& first) {
  SqliteJournal one(look_at(folder, shard));
  const std::string path = one.place() + "/journal.db";
  const std::string of = std::to_string(first.shard().of);
  if (const auto opened = one.open(); !opened) {
    if (!one.is_empty()) return opened;
    return lost_shard(path, "is missing, or empty without its log",
                      first.place() + "/journal.db says that there are " + of + " shards", folder);
  }
  if (one.first() == first.id() && one.shard().number == shard &&
      one.shard().of == first.shard().of) {
    return {};
  }
  return Error(Errc::kCorruptState, "journal " + path + ": is not shard " + std::to_string(shard) +
                                        " of the " + of + " of " + first.place() +
                                        ". Put that file back, or restore a backup");
}

}  // namespace

std::string shard_folder(const std::string& folder, std::uint32_t shard) {
  return shard == 0 ? folder : folder + "/shard-" + std::to_string(shard);
}

Error lost_shard(const std::string& path, const std::string& what, const std::string& why,
                 const std::string& folder) {
  return {Errc::kCorruptState,
          "journal " + path + ": " + what + ", but " + why +
              ". Put the file back, with journal.db-wal if there is one, or restore a backup. To "
              "forget all locks, stop every client, and remove " +
              folder};
}

Result<std::optional<std::uint32_t>> count_shards(const std::string& folder) {
  SqliteJournal first(look_at(folder, 0));
  if (const auto opened = first.open(); !opened) {
    if (!first.is_empty()) return opened.error();
    if (const auto none = refuse_orphans(folder); !none) return none.error();
    return std::optional<std::uint32_t>();
  }
  const auto [number, of] = first.shard();
  if (number != 0) {
    return Error(Errc::kInvalidArgument, "journal " + first.place() + ": is shard " +
                                             std::to_string(number) + " of " + std::to_string(of) +
                                             ": name the folder that it is in");
  }
  for (std::uint32_t shard = 1; shard < of; ++shard) {
    if (const auto good = check_other(folder, shard, first); !good) return good.error();
  }
  return std::optional(of);
}

Result<std::uint32_t> fix_folder_shards(const std::string& folder, std::uint32_t wanted) {
  const std::string first = folder + "/journal.db";
  // A user without rights to the journal is told so when it is opened.
  if (::access(first.c_str(), R_OK | W_OK) != 0 && errno == EACCES) return std::max(wanted, 1U);
  const auto found = count_shards(folder);
  if (!found) return found.error();
  if (!*found) return std::max(wanted, 1U);
  if (wanted == 0 || wanted == **found) return **found;
  return Error(Errc::kInvalidArgument,
               "journal " + folder + " has " + std::to_string(**found) + " shard(s), not " +
                   std::to_string(wanted) +
                   ": the number is fixed when a journal begins. Leave --shards out");
}

}  // namespace holdfast::server
