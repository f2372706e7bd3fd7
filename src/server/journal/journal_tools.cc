#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "holdfast/server_tools.h"
#include "src/port/service/shards.h"
#include "src/server/journal/folder_shards.h"
#include "src/server/journal/sqlite_journal.h"
#include "src/server/recovery.h"
#include "src/stores/sqlite/file/file_system.h"
#include "src/stores/sqlite/file/fork_gate.h"
#include "src/stores/sqlite/sql.h"

namespace holdfast {
namespace {

using server::shard_folder;
using server::SqliteJournal;
using server::SqliteJournalOptions;
using stores::sqlite::InsideSqlite;
using stores::sqlite::Statement;

// A connection that never folds a log into its database: that is the server's.
struct CloseDatabase {
  void operator()(sqlite3* db) const {
    const InsideSqlite inside;
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    sqlite3_close_v2(db);
  }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

Error sqlite_failed(const std::string& path, sqlite3* db, int code) {
  const std::string why = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  const int kind = code & 0xff;
  const Errc errc = kind == SQLITE_PERM || kind == SQLITE_READONLY    ? Errc::kPermissionDenied
                    : kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB ? Errc::kCorruptState
                                                                      : Errc::kUnavailable;
  return {errc, path + ": " + why};
}

Result<Database> open_file(const std::string& path, int flags) {
  const InsideSqlite inside;
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw,
                                   flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, nullptr);
  Database db(raw);
  if (code != SQLITE_OK) return sqlite_failed(path, raw, code);
  sqlite3_busy_timeout(raw, 5'000);
  return db;
}

// All pages in one step: a server's commits do not come between, and do not wait either.
Result<void> copy_pages(const std::string& from, const std::string& to) {
  auto source = open_file(from, SQLITE_OPEN_READWRITE);
  if (!source) return source.error();
  auto target = open_file(to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!target) return target.error();
  const InsideSqlite inside;
  sqlite3* const made = target->get();
  sqlite3_backup* const backup = sqlite3_backup_init(made, "main", source->get(), "main");
  if (backup == nullptr) return sqlite_failed(to, made, sqlite3_errcode(made));
  const int stepped = sqlite3_backup_step(backup, -1);
  const int ended = sqlite3_backup_finish(backup);
  if (stepped != SQLITE_DONE) return sqlite_failed(to, made, ended == SQLITE_OK ? stepped : ended);
  // One file, and a term that no server has had: bytes that somebody copies over a database are
  // then told from it.
  const char* const mark =
      "PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL;"
      "UPDATE meta SET term = term || '-copy' WHERE term NOT LIKE '%-copy'";
  const int marked = sqlite3_exec(made, mark, nullptr, nullptr, nullptr);
  if (marked != SQLITE_OK) return sqlite_failed(to, made, marked);
  return {};
}

void sync_folder(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

std::string whole(const std::string& path) {
  std::error_code error;
  const auto found = std::filesystem::absolute(path, error);
  std::string text = error ? path : found.lexically_normal().string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

bool is_there(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

// An operator may also write the journal's URL.
Result<std::string> path_of(const std::string& given) {
  constexpr std::string_view kSqlite = "sqlite:";
  if (given.starts_with(kSqlite) && !given.starts_with("sqlite://")) {
    return whole(given.substr(kSqlite.size()));
  }
  if (given.find("://") == given.npos) return whole(given);
  return Error(Errc::kUnsupported,
               "'" + given +
                   "' is no journal's folder or backup. For a journal on etcd use etcd's own "
                   "tools: 'etcdctl snapshot save' and 'etcdctl snapshot status'");
}

Error part_failed(const std::string& part) {
  return {errno == EACCES || errno == EPERM ? Errc::kPermissionDenied : Errc::kUnavailable,
          part + ": " + std::strerror(errno) +
              (errno == EEXIST ? "; remove it, unless a backup runs just now" : "")};
}

// Pages may be damaged that hold no record now: a server would end at its next write there.
Result<void> check_pages(const std::string& file) {
  auto db = open_file(file, SQLITE_OPEN_READWRITE);
  if (!db) return db.error();
  const InsideSqlite inside;
  Statement check;
  check.prepare(db->get(), "PRAGMA integrity_check(1)");
  const int code = check.step();
  if (code == SQLITE_ROW && check.text(0) == "ok") return {};
  if (code != SQLITE_ROW) return sqlite_failed(file, db->get(), code);
  return Error(Errc::kCorruptState, "journal " + file +
                                        ": its pages are damaged ('PRAGMA integrity_check' of "
                                        "SQLite tells where). Restore a backup");
}

// One database. `options`: a look.
Result<JournalReport> read_whole(const SqliteJournalOptions& options) {
  SqliteJournal journal(options);
  if (auto opened = journal.open(); !opened) return opened.error();
  JournalReport report;
  report.id = journal.id();
  report.term = journal.term();
  report.shards = journal.shard().of;
  const std::string place = options.file.empty() ? options.folder : options.file;
  const auto last = journal.last();
  report.batches = last ? *last : 0;
  const auto all = server::recover(journal, {}, 0);
  if (!all) return server::at_journal(place, all.error());
  const std::string file = options.file.empty() ? options.folder + "/journal.db" : options.file;
  if (auto sound = check_pages(file); !sound) return sound.error();
  report.locks = all->locks;
  report.holders = all->holders;
  report.waiters = all->waiters.size();
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  report.bytes = error ? 0 : size;
  return report;
}

Result<JournalReport> read_file(const std::string& path) {
  SqliteJournalOptions options{path};
  options.look_only = true;
  options.file = path;
  return read_whole(options);
}

// The id is the first shard's.
void add_shard(JournalReport& sum, const JournalReport& one) {
  sum.term.clear();
  sum.batches += one.batches;
  sum.bytes += one.bytes;
  sum.locks += one.locks;
  sum.holders += one.holders;
  sum.waiters += one.waiters;
}

Error no_journal(const std::string& folder) {
  return {Errc::kInvalidArgument, "there is no journal at " + folder + "/journal.db"};
}

// A copy beside its place first, so that a crash leaves no half of one.
Result<JournalReport> copy_whole(const std::string& from, const std::string& to) {
  const std::string part = to + ".part";
  const int file = ::open(part.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return part_failed(part);
  ::close(file);
  auto copied = copy_pages(from, part);
  auto report = copied ? read_file(part) : copied.error();
  if (report && ::rename(part.c_str(), to.c_str()) != 0) {
    report = Error(Errc::kUnavailable, to + ": " + std::strerror(errno));
  }
  if (!report) ::unlink(part.c_str());
  sync_folder(stores::sqlite::folder_of(to));
  return report;
}

// The first one comes last, because the others are looked for where it is. On an error nothing
// stays.
Result<JournalReport> copy_shards(const std::string& from, const std::string& into,
                                  std::uint32_t shards) {
  JournalReport sum;
  for (std::uint32_t shard = shards; shard-- > 0;) {
    const std::string folder = shard_folder(into, shard);
    Result<JournalReport> copied = JournalReport();
    if (!stores::sqlite::make_folders(folder)) {
      copied = Error(Errc::kPermissionDenied, folder + ": " + std::strerror(errno));
    } else {
      copied = copy_whole(shard_folder(from, shard) + "/journal.db", folder + "/journal.db");
    }
    if (!copied) {
      while (++shard < shards) ::unlink((shard_folder(into, shard) + "/journal.db").c_str());
      return copied;
    }
    add_shard(*copied, sum);
    sum = *std::move(copied);
  }
  sync_folder(into);
  return sum;
}

// A folder with a database for each shard.
Result<JournalReport> back_up_shards(const std::string& from, const std::string& to,
                                     std::uint32_t shards) {
  const std::string part = to + ".part";
  if (::mkdir(part.c_str(), 0700) != 0) return part_failed(part);
  auto report = copy_shards(from, part, shards);
  if (report && ::rename(part.c_str(), to.c_str()) != 0) {
    report = Error(Errc::kUnavailable, to + ": " + std::strerror(errno));
  }
  std::error_code error;
  if (!report) std::filesystem::remove_all(part, error);
  sync_folder(stores::sqlite::folder_of(to));
  return report;
}

Result<void> refuse_journals(const std::string& into) {
  for (std::uint32_t shard = 0; shard < port::kMostShards; ++shard) {
    const std::string folder = shard_folder(into, shard);
    const std::string to = folder + "/journal.db";
    if (is_there(to)) {
      return Error(Errc::kInvalidArgument,
                   folder +
                       ": has a journal. Stop its server, and move journal.db and journal.db-wal "
                       "away first; leave journal.id there");
    }
    if (is_there(to + "-wal")) {
      return Error(Errc::kInvalidArgument, to + "-wal: belongs to another database; move it away");
    }
  }
  return {};
}

}  // namespace

Result<JournalReport> verify_journal(const std::string& at) {
  const auto path = path_of(at);
  if (!path) return path.error();
  if (!is_folder(*path)) {
    auto report = read_file(*path);
    if (!report || report->shards == 1) return report;
    return Error(Errc::kInvalidArgument, *path + ": has one of " + std::to_string(report->shards) +
                                             " shards; name the folder of all");
  }
  const auto shards = server::count_shards(*path);
  if (!shards) return shards.error();
  if (!*shards) return no_journal(*path);
  JournalReport sum;
  for (std::uint32_t shard = 0; shard < **shards; ++shard) {
    SqliteJournalOptions options{shard_folder(*path, shard)};
    options.look_only = true;
    const auto one = read_whole(options);
    if (!one) return one;
    if (shard == 0) {
      sum = *one;
    } else {
      add_shard(sum, *one);
    }
  }
  return sum;
}

Result<JournalReport> back_up_journal(const std::string& folder, const std::string& destination) {
  const auto path = path_of(folder);
  if (!path) return path.error();
  const std::string to = whole(destination);
  if (is_there(to)) {
    return Error(Errc::kInvalidArgument, to + ": is there already; name a file that is not");
  }
  if (to.starts_with(*path + "/shard-")) {
    return Error(Errc::kInvalidArgument,
                 to + ": would pass for a shard of this journal; name another place");
  }
  const auto shards = server::count_shards(*path);
  if (!shards) return shards.error();
  if (!*shards) return no_journal(*path);
  if (**shards > 1) return back_up_shards(*path, to, **shards);
  return copy_whole(*path + "/journal.db", to);
}

Result<JournalReport> restore_journal(const std::string& backup, const std::string& folder) {
  const auto path = path_of(folder);
  if (!path) return path.error();
  const std::string from = whole(backup);
  const std::string& into = *path;
  auto seen = verify_journal(from);
  if (!seen) return seen;
  if (is_folder(from) && (seen->shards == 1 || is_there(from + "/journal.id"))) {
    return Error(Errc::kInvalidArgument,
                 from +
                     ": is a folder of a journal; name a backup, as 'holdfast server backup' "
                     "makes it");
  }
  if (auto free = refuse_journals(into); !free) return free.error();
  if (!stores::sqlite::make_folders(into)) {
    return Error(Errc::kPermissionDenied, into + ": " + std::strerror(errno));
  }
  if (seen->shards > 1) return copy_shards(from, into, seen->shards);
  return copy_whole(from, into + "/journal.db");
}

}  // namespace holdfast
