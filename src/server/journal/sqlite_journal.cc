#include "src/server/journal/sqlite_journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/server/journal/folder_shards.h"
#include "src/stores/sqlite/file/file_system.h"
#include "src/stores/sqlite/file/fork_gate.h"
#include "src/stores/sqlite/file/lock_file.h"
#include "src/stores/sqlite/sql.h"

namespace holdfast::server {
namespace {

using stores::sqlite::InsideSqlite;
using stores::sqlite::ResetAtEnd;
using stores::sqlite::Statement;

constexpr std::int64_t kFormat = 1;
constexpr std::int64_t kShardedFormat = 2;
// This byte of the database is beyond those that SQLite locks.
constexpr off_t kLockedByte = 0x7fff'ffff'ffff'0000;

constexpr const char* kSettings = R"sql(
PRAGMA synchronous = FULL;
PRAGMA journal_size_limit = 67108864;
PRAGMA temp_store = MEMORY;
PRAGMA cell_size_check = ON;
)sql";

constexpr const char* kSchema = R"sql(
DROP TABLE IF EXISTS meta; DROP TABLE IF EXISTS ring; DROP TABLE IF EXISTS chunk;
DROP TABLE IF EXISTS shard;
CREATE TABLE meta (
  one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL, id TEXT NOT NULL,
  terms INTEGER NOT NULL, term TEXT NOT NULL, room INTEGER NOT NULL,
  head_batch INTEGER NOT NULL, head_count INTEGER NOT NULL, head_checksum INTEGER NOT NULL);
CREATE TABLE ring (slot INTEGER PRIMARY KEY, number INTEGER NOT NULL, bytes BLOB NOT NULL);
CREATE TABLE chunk (batch INTEGER NOT NULL, place INTEGER NOT NULL, bytes BLOB NOT NULL,
  UNIQUE (batch, place));
)sql";

constexpr const char* kShardSchema = R"sql(
CREATE TABLE shard (
  one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL, shards INTEGER NOT NULL,
  hash TEXT NOT NULL, first TEXT NOT NULL);
)sql";

using std::chrono::microseconds;

std::int64_t as_stored(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t as_read(std::int64_t value) { return static_cast<std::uint64_t>(value); }

}  // namespace

struct SqliteJournal::Statements {
  Statement begin, commit, rollback, term, put_batch, get_batch, last, put_chunk, get_chunk,
      put_head, trim;

  int prepare(sqlite3* db) {
    const std::pair<Statement*, const char*> all[] = {
        {&begin, "BEGIN IMMEDIATE"},
        {&commit, "COMMIT"},
        {&rollback, "ROLLBACK"},
        {&term, "SELECT term FROM meta"},
        {&put_batch, "INSERT OR REPLACE INTO ring (slot, number, bytes) VALUES (?1, ?2, ?3)"},
        {&get_batch, "SELECT number, bytes FROM ring WHERE slot = ?1"},
        {&last,
         "SELECT max(number), sum(typeof(number) <> 'integer' OR number % ?1 <> slot) FROM ring"},
        {&put_chunk, "INSERT OR REPLACE INTO chunk (batch, place, bytes) VALUES (?1, ?2, ?3)"},
        {&get_chunk, "SELECT bytes FROM chunk WHERE batch = ?1 AND place = ?2"},
        {&put_head, "UPDATE meta SET head_batch = ?1, head_count = ?2, head_checksum = ?3"},
        {&trim,
         "DELETE FROM chunk WHERE rowid IN (SELECT rowid FROM chunk WHERE batch <> ?1 LIMIT 4)"}};
    for (const auto& [statement, text] : all) {
      if (const int code = statement->prepare(db, text); code != SQLITE_OK) return code;
    }
    return SQLITE_OK;
  }
};

SqliteJournal::SqliteJournal(SqliteJournalOptions options) : options_(std::move(options)) {
  // SQLite refuses a path with a symbolic link in it, such as systemd makes for a state folder.
  std::error_code error;  // Then open() fails with a reason.
  const auto whole = std::filesystem::absolute(options_.folder, error);
  const auto real = std::filesystem::weakly_canonical(whole, error);
  options_.folder = (error ? whole.lexically_normal() : real).string();
  while (options_.folder.size() > 1 && options_.folder.ends_with('/')) options_.folder.pop_back();
}

SqliteJournal::~SqliteJournal() { close(); }

void SqliteJournal::close() {
  const InsideSqlite inside;
  statements_.reset();
  if (options_.look_only && db_ != nullptr) static_cast<void>(run("ROLLBACK"));
  // A log that could not be synced once must not be folded into the database. Without a term it is
  // the last server's, and the next start looks for it.
  if ((dead_ || !has_term_) && db_ != nullptr) {
    sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  }
  const bool ours = has_term_ && !dead_ && !lost_ && files_in_place();
  sqlite3_close_v2(db_);
  db_ = nullptr;
  // SQLite has folded the log into the database and removed it. When it could not, the next start
  // needs the log.
  if (ours && file_at("-wal") == FileId{} && file_at("") == database_) {
    identity_->closed = true;
    note_wait();
    static_cast<void>(identity_->write(options_.folder));
  }
  if (!has_term_ && made_database_) {
    for (const char* suffix : {"", "-wal", "-shm"}) ::unlink((path() + suffix).c_str());
  }
  if (!has_term_ && made_folder_) {
    ::unlink((options_.folder + "/lock").c_str());
    ::rmdir(options_.folder.c_str());
  }
  has_term_ = made_database_ = made_folder_ = false;
  // After SQLite: closing a descriptor of the database drops SQLite's own locks on it.
  for (int* file : {&database_lock_, &lock_}) {
    if (*file >= 0) ::close(*file);
    *file = -1;
  }
}

Error SqliteJournal::error(int code) const {
  const std::string text = db_ != nullptr ? sqlite3_errmsg(db_) : sqlite3_errstr(code);
  const Error known = stores::sqlite::sql_error(code, db_, path());
  const char* const next = known.code() == Errc::kCorruptState ? ". Restore a backup" : "";
  return {known.code(), "journal " + path() + ": " + text + next};
}

Result<void> SqliteJournal::open() {
  auto opened = options_.look_only ? open_to_look() : open_folder();
  if (!opened) close();  // Nothing stays behind that was not there before.
  return opened;
}

Result<void> SqliteJournal::open_files() {
  if (auto good = check_folder(); !good) return good;
  if (auto locked = take_lock(); !locked) return locked;
  auto identity = FolderIdentity::read(options_.folder);
  if (!identity) return identity.error();
  identity_ = *std::move(identity);
  if (auto locked = lock_database(); !locked) return locked;
  struct stat status {};
  log_was_there_ = ::stat((path() + "-wal").c_str(), &status) == 0 && status.st_size > 0;
  return open_database();
}

Result<void> SqliteJournal::open_folder() {
  const InsideSqlite inside;
  if (auto opened = open_files(); !opened) return opened;
  if (auto fits = create_or_check(); !fits) return fits;
  if (auto known = identify_journal(); !known) return known;
  statements_ = std::make_unique<Statements>();
  if (const int code = statements_->prepare(db_); code != SQLITE_OK) return error(code);
  return begin_term();
}

Result<void> SqliteJournal::open_to_look() {
  const InsideSqlite inside;
  struct stat status {};
  if (::stat(path().c_str(), &status) != 0 || status.st_size == 0) {
    empty_ = true;
    return Error(Errc::kInvalidArgument, "there is no journal at " + path());
  }
  // A log can be read only with its shared memory, which SQLite makes beside it.
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
  if (const int code = sqlite3_open_v2(path().c_str(), &db_, flags, nullptr); code != SQLITE_OK) {
    return error(code);
  }
  sqlite3_extended_result_codes(db_, 1);
  sqlite3_busy_timeout(db_, 2'000);
  if (auto begun = run("BEGIN; SELECT count(*) FROM sqlite_schema"); !begun) return begun;
  if (auto fits = create_or_check(); !fits) return fits;
  statements_ = std::make_unique<Statements>();
  if (const int code = statements_->prepare(db_); code != SQLITE_OK) return error(code);
  return {};
}

Result<void> SqliteJournal::check_folder() {
  const std::string& folder = options_.folder;
  // First what is there: a folder that nobody may use is not made.
  std::string there = folder;
  struct stat status {};
  while (there != "/" && ::stat(there.c_str(), &status) != 0 && errno == ENOENT) {
    there = stores::sqlite::folder_of(there);
  }
  made_folder_ = there != folder;
  if (!made_folder_ && S_ISREG(status.st_mode)) {
    return Error(Errc::kInvalidArgument,
                 "journal " + folder + ": is a file; name a folder, which is made if need be");
  }
  if (auto usable = check_file_system(there); !usable) return usable;
  if (!stores::sqlite::make_folders(folder)) {
    return Error(errno == EACCES || errno == EPERM ? Errc::kPermissionDenied : Errc::kUnavailable,
                 "journal " + folder + ": cannot make the folder: " + std::strerror(errno));
  }
  // A power failure must not take away the folder itself.
  const std::string parent = stores::sqlite::folder_of(folder);
  const int above = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (above >= 0) {
    ::fsync(above);
    ::close(above);
  }
  return {};
}

Result<void> SqliteJournal::check_file_system(const std::string& at) const {
  const std::string& folder = options_.folder;
  const auto found = stores::sqlite::file_system_at(at);
  if (!found) return found.error();
  if (!found->allowed) {
    return Error(Errc::kUnsupported, "journal " + folder + ": lies on " + found->name +
                                         ", which is not known to keep locks and synced data; "
                                         "use a folder on a local disk");
  }
  return {};
}

Result<void> SqliteJournal::take_lock() {
  const std::string name = options_.folder + "/lock";
  lock_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_ < 0) {
    return Error(errno == EACCES || errno == EPERM ? Errc::kPermissionDenied : Errc::kUnavailable,
                 "journal " + name + ": " + std::strerror(errno));
  }
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(lock_, F_OFD_SETLK, &whole) != 0) {
    char pid[32] = {};
    const bool known = ::pread(lock_, pid, sizeof pid - 1, 0) > 0;
    return Error(Errc::kStoreInUse, "journal " + options_.folder + ": a server " +
                                        (known ? "(process " + std::string(pid) + ") " : "") +
                                        "uses the folder; stop it first");
  }
  // For the message above only.
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(lock_, 0) != 0 || ::pwrite(lock_, pid.data(), pid.size(), 0) < 0) return {};
  return {};
}

// Whoever has the database open has this lock, so a free one proves that the last server is dead,
// whatever became of the file `lock`.
Result<void> SqliteJournal::lock_database() {
  const std::string name = path();
  struct stat status {};
  const bool missing = ::lstat(name.c_str(), &status) != 0 && errno == ENOENT;
  if (missing && had_journal()) return lost_database("is missing");
  database_lock_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (database_lock_ < 0) {
    return Error(errno == EACCES || errno == EPERM ? Errc::kPermissionDenied : Errc::kUnavailable,
                 "journal " + name + ": " + std::strerror(errno));
  }
  made_database_ = missing;
  struct flock one {};
  one.l_type = F_WRLCK;
  one.l_whence = SEEK_SET;
  one.l_start = kLockedByte;
  one.l_len = 1;
  if (::fcntl(database_lock_, F_OFD_SETLK, &one) == 0) return {};
  return Error(Errc::kStoreInUse, "journal " + options_.folder +
                                      ": a server uses the folder, whose file 'lock' was removed "
                                      "or replaced; stop that server first");
}

Result<void> SqliteJournal::open_database() {
  const char* vfs = options_.vfs.empty() ? nullptr : options_.vfs.c_str();
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                    SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_NOFOLLOW;
  const int code = sqlite3_open_v2(path().c_str(), &db_, flags, vfs);
  if (code != SQLITE_OK) return error(code);
  sqlite3_extended_result_codes(db_, 1);
  sqlite3_busy_timeout(db_, 2'000);
  Statement mode;
  mode.prepare(db_, "PRAGMA journal_mode = WAL");
  if (const int stepped = mode.step(); stepped != SQLITE_ROW) return error(stepped);
  if (mode.text(0) != "wal") {
    return Error(Errc::kUnsupported, "journal " + path() + ": SQLite has no WAL mode here");
  }
  mode.finalize();
  // Each 16 MiB, or less on a small disk. A commit that does it takes some milliseconds.
  const int pages = stores::sqlite::log_pages_at(options_.folder);
  sqlite3_wal_autocheckpoint(db_, std::max(1, pages / static_cast<int>(options_.shard.of)));
  return run(kSettings);
}

Result<void> SqliteJournal::run(const char* text) {
  const int code = sqlite3_exec(db_, text, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code);
  return {};
}

Result<void> SqliteJournal::create_or_check() {
  Statement tables;
  tables.prepare(db_, "SELECT count(*) FROM sqlite_schema");
  if (const int code = tables.step(); code != SQLITE_ROW) return error(code);
  const bool fresh = tables.integer(0) == 0;
  tables.finalize();
  if (fresh && options_.look_only) {
    empty_ = true;
    return Error(Errc::kCorruptState, "journal " + path() + ": is empty");
  }
  // Nothing begins anew where a journal was: its clients may still count on their leases.
  if (fresh && had_journal()) return lost_database("is empty");
  if (fresh) {
    if (auto made = create(); !made) return made;
  }
  if (auto read = read_meta(); !read) return read;
  const port::ShardNumber& wanted = options_.shard;
  if (options_.look_only || (shard_.number == wanted.number && shard_.of == wanted.of)) return {};
  return Error(Errc::kInvalidArgument,
               "journal " + path() + ": is shard " + std::to_string(shard_.number) + " of " +
                   std::to_string(shard_.of) + ", and not shard " + std::to_string(wanted.number) +
                   " of " + std::to_string(wanted.of));
}

// The first shard comes last: where it is, all are.
Result<void> SqliteJournal::create() {
  const auto drawn = base::random_128();
  const std::string id = base::to_hex(drawn.high, drawn.low);
  const auto& [number, of] = options_.shard;
  for (std::uint32_t other = 1; number == 0 && other < of; ++other) {
    SqliteJournalOptions one = options_;
    one.folder = shard_folder(options_.folder, other);
    one.shard.number = other;
    one.first = id;
    if (auto prepared = SqliteJournal(std::move(one)).prepare(); !prepared) return prepared;
  }
  std::string script = "BEGIN IMMEDIATE;" + std::string(kSchema) + "INSERT INTO meta VALUES (1, " +
                       std::to_string(of == 1 ? kFormat : kShardedFormat) + ", '" + id +
                       "', 0, '', " + std::to_string(options_.room) + ", 0, 0, 0);";
  if (of > 1) {
    script += kShardSchema + ("INSERT INTO shard VALUES (1, " + std::to_string(number)) + ", " +
              std::to_string(of) + ", '" + std::string(port::kShardHash) + "', '" +
              (number == 0 ? id : options_.first) + "');";
  }
  return run((script + "COMMIT;").c_str());
}

// A start that was cut off may have left it. One that has had a term is somebody's journal.
Result<void> SqliteJournal::prepare() {
  const InsideSqlite inside;
  auto made = open_files();
  if (made && (had_journal() || (read_meta() && !term_.empty()))) {
    made = Error(Errc::kCorruptState, "journal " + path() + ": had a server already");
  }
  if (made) made = create();
  if (made) made_database_ = made_folder_ = false;
  close();
  return made;
}

Result<void> SqliteJournal::read_meta() {
  Statement meta;
  meta.prepare(db_,
               "SELECT format, id, room, head_batch, head_count, head_checksum, term FROM meta");
  if (const int code = meta.step(); code != SQLITE_ROW) {
    return Error(Errc::kCorruptState, "journal " + path() + ": this is no journal of Holdfast");
  }
  const std::int64_t format = meta.integer(0);
  if (format != kFormat && format != kShardedFormat) {
    return Error(Errc::kVersionMismatch, "journal " + path() + ": has format " +
                                             std::to_string(format) +
                                             ", which this version does not know; upgrade");
  }
  id_ = meta.text(1);
  term_ = meta.text(6);
  room_ = as_read(meta.integer(2));
  head_.batch = as_read(meta.integer(3));
  head_.count = static_cast<std::uint32_t>(meta.integer(4));
  head_.checksum = as_read(meta.integer(5));
  if (room_ == 0 || meta.integer(4) < 0 || meta.integer(4) > INT_MAX || meta.integer(3) < 0) {
    return Error(Errc::kCorruptState, "journal " + path() + ": its head makes no sense");
  }
  shard_ = {};
  first_ = id_;
  if (format == kShardedFormat) return read_shard();
  return {};
}

Result<void> SqliteJournal::read_shard() {
  Statement shard;
  shard.prepare(db_, "SELECT number, shards, hash, first FROM shard");
  const bool there = shard.step() == SQLITE_ROW;
  const std::int64_t number = there ? shard.integer(0) : -1;
  const std::int64_t of = there ? shard.integer(1) : 0;
  if (of < 2 || of > port::kMostShards || number < 0 || number >= of) {
    return Error(Errc::kCorruptState, "journal " + path() + ": its row 'shard' makes no sense");
  }
  if (shard.text(2) != port::kShardHash) {
    return Error(Errc::kVersionMismatch, "journal " + path() + ": spreads names by '" +
                                             std::string(shard.text(2)) +
                                             "', which this version does not know");
  }
  shard_ = {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(of)};
  first_ = shard.text(3);
  return {};
}

// Only the first shard begins a journal.
bool SqliteJournal::had_journal() const {
  return (identity_ && !identity_->term.empty()) ||
         (options_.shard.number > 0 && options_.first.empty());
}

Error SqliteJournal::lost_database(const std::string& what) const {
  const bool first = options_.shard.number == 0;
  const std::string whole = first ? options_.folder : stores::sqlite::folder_of(options_.folder);
  const std::string why =
      identity_ ? options_.folder + "/journal.id says that the folder has journal " + identity_->id
                : "the journal has " + std::to_string(options_.shard.of) + " shards";
  return lost_shard(path(), what, why, whole);
}

// The database as the last server left it, or a copy that was put back?
Result<void> SqliteJournal::identify_journal() {
  stores::sqlite::FileIdentity file;
  if (!stores::sqlite::identify(path(), file)) {
    return Error(Errc::kUnavailable, "journal " + path() + ": " + std::strerror(errno));
  }
  opening_.began = term_.empty() && !(identity_ && !identity_->term.empty());
  std::string& why = opening_.restored;
  bool& waits = opening_.known;  // Since an earlier term.
  if (!opening_.began) {
    // Each of these shows that changes which were answered may be missing here.
    if (!identity_) {
      why = "its folder has no journal.id";
    } else if (identity_->id != id_) {
      why = "journal.id names another journal, " + identity_->id;
    } else if (identity_->term != term_ && identity_->next != term_) {
      why = "its term is " + term_ + ", but journal.id has seen " + identity_->term;
    } else if (identity_->inode != file.inode || identity_->birth != file.birth) {
      why = "journal.db is another file than the last server had";
    } else if (identity_->overwritten) {
      why = "journal.id was overwritten by a copy";
    } else if (!identity_->closed && !log_was_there_) {
      why = "its log, journal.db-wal, is missing or empty";
    } else if (identity_->restored) {
      why = "the wait after it was restored has not ended";
      waits = true;
    }
  }
  const std::string before = identity_ && identity_->id == id_ ? identity_->term : term_;
  FolderIdentity now{.id = id_,
                     .term = before,
                     .restored = !why.empty(),
                     .inode = file.inode,
                     .birth = file.birth};
  if (waits) {
    now.wait = identity_->wait;
    now.boot = identity_->boot;
    now.noted = identity_->noted;
  }
  identity_ = std::move(now);
  if (identity_->restored) {
    const auto wall = base::wall_now().time_since_epoch();
    if (!identity_->wait.goes_on(std::chrono::duration_cast<std::chrono::seconds>(wall).count())) {
      identity_->boot.clear();
    }
    note_wait();
    opening_.waited = identity_->wait.waited;
  }
  return {};
}

// A host that was off counts the wait from the last note: nothing tells how long it was off.
void SqliteJournal::note_wait() {
  if (!identity_->restored) return;
  const base::BootInstant now = base::BootClock::now();
  const auto since_boot = std::chrono::duration_cast<microseconds>(now.time_since_epoch());
  const std::string boot = stores::sqlite::read_boot_id();
  if (!boot.empty() && boot == identity_->boot && since_boot > identity_->noted) {
    const auto more = std::chrono::floor<std::chrono::milliseconds>(since_boot - identity_->noted);
    identity_->wait.waited += more;
    identity_->noted += more;
  } else {
    identity_->noted = since_boot;
  }
  identity_->boot = boot;
  next_note_ = now + options_.between_notes;
}

Result<void> SqliteJournal::settle() {
  identity_->restored = false;
  return identity_->write(options_.folder);
}

// journal.id knows both terms while the new one begins: a crash leaves either of them.
Result<void> SqliteJournal::begin_term() {
  Statement next;
  next.prepare(db_, "SELECT (terms + 1) || '-' || ?1 FROM meta");
  next.bind_text(1, base::to_hex(0, base::random_128().low).substr(24));
  if (const int code = next.step(); code != SQLITE_ROW) return error(code);
  const std::string term(next.text(0));
  next.finalize();
  identity_->next = term;
  if (!opening_.began) identity_->term = term_;
  if (auto known = identity_->write(options_.folder); !known) return known;
  next.prepare(db_, "UPDATE meta SET terms = terms + 1, term = ?1");
  next.bind_text(1, term);
  if (const int code = next.run(); code != SQLITE_OK) return error(code);
  next.finalize();
  term_ = term;
  has_term_ = true;
  database_ = file_at("");
  log_ = file_at("-wal");
  shared_ = file_at("-shm");
  made_database_ = made_folder_ = false;
  identity_->term = term;
  identity_->next.clear();
  return identity_->write(options_.folder);
}

SqliteJournal::FileId SqliteJournal::file_at(const char* suffix) const {
  stores::sqlite::FileIdentity found;
  if (!stores::sqlite::identify(path() + suffix, found)) return {};
  return {found.device, found.inode};
}

bool SqliteJournal::files_in_place() {
  int moved = 0;
  sqlite3_file_control(db_, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  return moved == 0 && file_at("") == database_ && file_at("-wal") == log_ &&
         file_at("-shm") == shared_;
}

Result<SnapshotHead> SqliteJournal::head() { return head_; }

Result<std::uint64_t> SqliteJournal::last() {
  const InsideSqlite inside;
  Statement& last = statements_->last;
  const ResetAtEnd reset(last);
  last.bind(1, as_stored(room_));
  if (const int code = last.step(); code != SQLITE_ROW) return error(code);
  if (last.integer(1) != 0) {  // A damaged number would hide the batches above it.
    return Error(Errc::kCorruptState, "journal " + path() + ": a batch's number is damaged");
  }
  return std::max(head_.batch, as_read(last.integer(0)));
}

Result<std::string> SqliteJournal::batch(std::uint64_t number) {
  const InsideSqlite inside;
  Statement& get = statements_->get_batch;
  const ResetAtEnd reset(get);
  get.bind(1, as_stored(number % room_));
  const int code = get.step();
  if (code != SQLITE_ROW && code != SQLITE_DONE) return error(code);
  if (code == SQLITE_DONE || as_read(get.integer(0)) != number) {
    return Error(Errc::kCorruptState,
                 "journal " + path() + ": batch " + std::to_string(number) + " is missing");
  }
  return std::string(get.blob(1));
}

Result<std::string> SqliteJournal::chunk(const SnapshotHead& head, std::uint32_t index) {
  const InsideSqlite inside;
  Statement& get = statements_->get_chunk;
  const ResetAtEnd reset(get);
  get.bind(1, as_stored(head.batch)).bind(2, std::int64_t{index});
  const int code = get.step();
  if (code == SQLITE_ROW) return std::string(get.blob(0));
  if (code != SQLITE_DONE) return error(code);
  return Error(Errc::kCorruptState, "journal " + path() + ": chunk " + std::to_string(index) +
                                        " of the snapshot is missing");
}

Commit SqliteJournal::commit(std::uint64_t number, std::string_view bytes) {
  if (number - head_.batch > room_) {
    reason_ = "the ring is full until the next snapshot is written";
    return Commit::kLater;
  }
  Statement& put = statements_->put_batch;
  put.bind(1, as_stored(number % room_)).bind(2, as_stored(number)).bind(3, bytes);
  return guarded(put);
}

Commit SqliteJournal::put_chunk(std::uint64_t batch, std::uint32_t index, std::string_view bytes) {
  Statement& put = statements_->put_chunk;
  put.bind(1, as_stored(batch)).bind(2, std::int64_t{index}).bind(3, bytes);
  return guarded(put);
}

Commit SqliteJournal::put_head(const SnapshotHead& head) {
  Statement& put = statements_->put_head;
  put.bind(1, as_stored(head.batch))
      .bind(2, std::int64_t{head.count})
      .bind(3, as_stored(head.checksum));
  const Commit done = guarded(put);
  if (done == Commit::kCommitted) head_ = head;
  return done;
}

Result<bool> SqliteJournal::trim() {
  statements_->trim.bind(1, as_stored(head_.batch));
  if (guarded(statements_->trim) != Commit::kCommitted) return Error(Errc::kUnavailable, reason_);
  return sqlite3_changes64(db_) > 0;
}

Commit SqliteJournal::look() {
  const InsideSqlite inside;
  if (dead_) return Commit::kUnknown;
  if (!files_in_place()) return moved();
  if (identity_->restored && base::BootClock::now() >= next_note_) {
    note_wait();
    static_cast<void>(identity_->write(options_.folder));  // Else the next term waits longer.
  }
  int code = SQLITE_OK;
  {
    const ResetAtEnd reset(statements_->term);
    code = statements_->term.step();
    if (code == SQLITE_ROW) {
      return statements_->term.text(0) == term_ ? Commit::kCommitted : replaced();
    }
  }
  return code == SQLITE_DONE ? replaced() : failed(code);
}

DiskSpace SqliteJournal::space() const {
  DiskSpace space;
  struct statvfs disk {};
  if (::statvfs(options_.folder.c_str(), &disk) != 0) return space;
  if (options_.shard.number == 0) {  // One shard tells of the disk of all.
    space.free = disk.f_bavail * disk.f_frsize;
    space.size = (disk.f_blocks - disk.f_bfree + disk.f_bavail) * disk.f_frsize;
  }
  for (const char* suffix : {"", "-wal", "-shm"}) {
    struct stat status {};
    if (::stat((path() + suffix).c_str(), &status) == 0) {
      space.journal += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
  }
  return space;
}

Commit SqliteJournal::moved() {
  lost_ = true;
  reason_ = "journal " + path() + ": the database or its log was moved, removed or replaced";
  return Commit::kRefused;
}

Commit SqliteJournal::replaced() {
  lost_ = true;
  reason_ = "journal " + path() + ": another server has begun a term of its own";
  return Commit::kRefused;
}

Commit SqliteJournal::guarded(Statement& write) {
  const InsideSqlite inside;
  if (dead_) return Commit::kUnknown;
  if (!files_in_place()) return moved();
  if (const int code = statements_->begin.run(); code != SQLITE_OK) return failed(code);
  bool ours = false;
  {
    const ResetAtEnd reset(statements_->term);
    ours = statements_->term.step() == SQLITE_ROW && statements_->term.text(0) == term_;
  }
  if (!ours) {
    statements_->rollback.run();
    return replaced();
  }
  int code = write.run();
  if (code == SQLITE_OK) code = statements_->commit.run();
  return code == SQLITE_OK ? Commit::kCommitted : failed(code);
}

// A full disk or a busy file leaves nothing behind once it is rolled back. After any other error
// nobody knows what the kernel has kept, and a second fsync would not tell.
Commit SqliteJournal::failed(int code) {
  reason_ = error(code).message();
  const int kind = code & 0xff;
  if (sqlite3_get_autocommit(db_) == 0) statements_->rollback.run();
  const bool rolled_back = sqlite3_get_autocommit(db_) != 0;
  if ((kind == SQLITE_FULL || kind == SQLITE_BUSY) && rolled_back) return Commit::kLater;
  dead_ = true;
  return Commit::kUnknown;
}

}  // namespace holdfast::server
