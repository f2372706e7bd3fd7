#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "holdfast/server_tools.h"
#include "src/server/journal/sqlite_journal.h"
#include "src/server/recovery.h"
#include "src/stores/sqlite/file/file_system.h"
#include "src/stores/sqlite/file/fork_gate.h"

namespace holdfast {
namespace {

using server::SqliteJournal;
using server::SqliteJournalOptions;
using stores::sqlite::InsideSqlite;

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

// A copy beside its place first, so that a crash leaves no half of one.
Result<JournalReport> copy_whole(const std::string& from, const std::string& to) {
  const std::string part = to + ".part";
  const int file = ::open(part.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) {
    return Error(errno == EACCES || errno == EPERM ? Errc::kPermissionDenied : Errc::kUnavailable,
                 part + ": " + std::strerror(errno) +
                     (errno == EEXIST ? "; remove it, unless a backup runs just now" : ""));
  }
  ::close(file);
  auto copied = copy_pages(from, part);
  auto report = copied ? verify_journal(part) : copied.error();
  if (report && ::rename(part.c_str(), to.c_str()) != 0) {
    report = Error(Errc::kUnavailable, to + ": " + std::strerror(errno));
  }
  if (!report) ::unlink(part.c_str());
  sync_folder(stores::sqlite::folder_of(to));
  return report;
}

}  // namespace

Result<JournalReport> verify_journal(const std::string& at) {
  const auto path = path_of(at);
  if (!path) return path.error();
  SqliteJournalOptions options{*path};
  options.look_only = true;
  if (!is_folder(options.folder)) options.file = options.folder;
  SqliteJournal journal(options);
  if (auto opened = journal.open(); !opened) return opened.error();
  JournalReport report;
  report.id = journal.id();
  report.term = journal.term();
  const std::string place = options.file.empty() ? options.folder : options.file;
  const auto last = journal.last();
  report.batches = last ? *last : 0;
  const auto all = server::recover(journal, {}, 0);
  if (!all) return Error(all.error().code(), "journal " + place + ": " + all.error().message());
  report.locks = all->locks;
  report.holders = all->holders;
  report.waiters = all->waiters.size();
  std::error_code error;
  const std::string file = options.file.empty() ? options.folder + "/journal.db" : options.file;
  const auto size = std::filesystem::file_size(file, error);
  report.bytes = error ? 0 : size;
  return report;
}

Result<JournalReport> back_up_journal(const std::string& folder, const std::string& destination) {
  const auto path = path_of(folder);
  if (!path) return path.error();
  const std::string from = *path + "/journal.db";
  const std::string to = whole(destination);
  if (is_there(to)) {
    return Error(Errc::kInvalidArgument, to + ": is there already; name a file that is not");
  }
  if (!is_there(from)) return Error(Errc::kInvalidArgument, "there is no journal at " + from);
  return copy_whole(from, to);
}

Result<JournalReport> restore_journal(const std::string& backup, const std::string& folder) {
  const auto path = path_of(folder);
  if (!path) return path.error();
  const std::string from = whole(backup);
  const std::string& into = *path;
  auto seen = verify_journal(from);
  if (!seen) return seen;
  if (is_folder(from)) {
    return Error(Errc::kInvalidArgument, from + ": is a folder; name the file of a backup");
  }
  const std::string to = into + "/journal.db";
  if (is_there(to)) {
    return Error(Errc::kInvalidArgument,
                 into +
                     ": has a journal. Stop its server, and move journal.db and journal.db-wal "
                     "away first; leave journal.id there");
  }
  if (!stores::sqlite::make_folders(into)) {
    return Error(Errc::kPermissionDenied, into + ": " + std::strerror(errno));
  }
  if (is_there(to + "-wal")) {
    return Error(Errc::kInvalidArgument, to + "-wal: belongs to another database; move it away");
  }
  return copy_whole(from, to);
}

}  // namespace holdfast
