#include "src/stores/sqlite/database.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "src/stores/sqlite/fork_gate.h"
#include "src/stores/sqlite/schema.h"

namespace holdfast::stores::sqlite {
namespace {

using namespace std::chrono_literals;

constexpr const char* text_of(Sql which) {
  switch (which) {
    case Sql::kBegin: return "BEGIN IMMEDIATE";
    case Sql::kBeginRead: return "BEGIN";
    case Sql::kCommit: return "COMMIT";
    case Sql::kRollback: return "ROLLBACK";
    case Sql::kFastAcquire: return kFastAcquire;
    case Sql::kFastRelease: return kFastRelease;
    case Sql::kFastRenew: return kFastRenew;
    case Sql::kBeat: return kBeat;
    case Sql::kAhead: return kAhead;
    case Sql::kNextExpiry: return kNextExpiry;
    case Sql::kLookHeld: return kLookHeld;
    case Sql::kLoadMeta: return kLoadMeta;
    case Sql::kLoadLock: return kLoadLock;
    case Sql::kListLocks: return kListLocks;
    case Sql::kLoadTickets: return kLoadTickets;
    case Sql::kLoadTicket: return kLoadTicket;
    case Sql::kLoadOddTickets: return kLoadOddTickets;
    case Sql::kSaveLock: return kSaveLock;
    case Sql::kSaveTicket: return kSaveTicket;
    case Sql::kDropTicket: return kDropTicket;
    case Sql::kSaveValue: return kSaveValue;
    case Sql::kSaveBroken: return kSaveBroken;
    case Sql::kLoadExtras: return kLoadExtras;
    case Sql::kRaiseTokens: return kRaiseTokens;
    case Sql::kCount: break;
  }
  return "";
}

// SQLite's own default of 1,000 pages syncs twice every thousand commits or so. On a small disk the
// log must be folded earlier: one that has taken all room leaves none for the file to grow, and can
// never be folded again.
constexpr std::int64_t kLogPages = 4000;
constexpr std::int64_t kFewestLogPages = 16;
constexpr std::int64_t kPageSize = 4096;
constexpr std::int64_t kLogShareOfDisk = 8;

std::int64_t log_pages_for(std::int64_t disk_size) {
  if (disk_size <= 0) return kLogPages;
  return std::clamp(disk_size / kLogShareOfDisk / kPageSize, kFewestLogPages, kLogPages);
}

constexpr const char* kSettings = R"sql(
PRAGMA synchronous = NORMAL;
PRAGMA journal_size_limit = 67108864;
PRAGMA temp_store = MEMORY;
PRAGMA secure_delete = OFF;
PRAGMA cell_size_check = ON;
)sql";

std::int64_t wall_microseconds() {
  return std::chrono::duration_cast<std::chrono::microseconds>(base::wall_now().time_since_epoch())
      .count();
}

}  // namespace

Database::Database(std::shared_ptr<LockFile> file, const SqliteTuning& tuning)
    : file_(std::move(file)),
      tuning_(tuning),
      boot_(tuning.boot_id.empty() ? read_boot_id() : tuning.boot_id),
      deadline_(base::BootClock::now() + 5s) {}

Database::~Database() {
  const InsideSqlite inside;
  forget_open(this);
  for (Statement& statement : statements_) statement.finalize();
  file_->leaving();
  // SQLite notices by itself when the file has gone, and leaves the -wal of its successor alone.
  sqlite3_close_v2(db_);
}

// The parent is still there with its locks, or has left the file in order: this closes descriptors
// and gives memory back, and takes none of the steps by which the last user of a file leaves.
void Database::let_go_after_fork() {
  for (Statement& statement : statements_) statement.finalize();
  // Others, that a thread of the parent was waiting with.
  while (sqlite3_stmt* left = sqlite3_next_stmt(db_, nullptr)) sqlite3_finalize(left);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_close_v2(db_);
  db_ = nullptr;
  file_->abandon();
}

Result<std::unique_ptr<Database>> Database::open(const std::string& path,
                                                 const SqliteTuning& tuning) {
  const InsideSqlite inside;
  forget_inherited();
  const auto real = LockFile::resolve(path);
  if (!real) return real.error();
  const std::string boot = tuning.boot_id.empty() ? read_boot_id() : tuning.boot_id;
  if (boot.empty()) {
    return Error(Errc::kUnsupported, "sqlite store " + path +
                                         ": needs /proc/sys/kernel/random/boot_id to tell leases "
                                         "of this boot from older ones");
  }
  const auto until = base::BootClock::now() + tuning.patience;
  bool want_exclusive = false;
  for (int attempt = 0; attempt < 100; ++attempt) {
    auto file = LockFile::attach(*real, boot, want_exclusive, tuning.patience);
    if (!file) return file.error();
    std::unique_ptr<Database> made(new Database(*file, tuning));
    if ((*file)->exclusive() && !made->is_alone()) {
      if (base::BootClock::now() >= until) return made->used_elsewhere();
      made.reset();
      file->reset();
      std::this_thread::sleep_for(tuning.patience / 50);
      continue;
    }
    if (auto connected = made->connect(); !connected) return connected.error();
    const auto ready = (*file)->exclusive() ? made->set_up() : made->matches();
    if (!ready) return ready.error();
    if (*ready && !made->moved()) return made;
    // Somebody came between, or what is here is of another boot or file.
    want_exclusive = !*ready && !(*file)->exclusive();
  }
  return Error(Errc::kUnavailable,
               "sqlite store " + path + ": the file is replaced again and again");
}

Result<std::unique_ptr<Database>> Database::open_another(std::shared_ptr<LockFile> file,
                                                         const SqliteTuning& tuning) {
  const InsideSqlite inside;
  std::unique_ptr<Database> made(new Database(std::move(file), tuning));
  // Before SQLite makes a new log at the place of one that was removed.
  Result<bool> fits = !made->moved();
  if (*fits) {
    const Result<void> connected = made->connect();
    fits = connected ? made->matches() : Result<bool>(connected.error());
  }
  if (made->moved() || (fits && !*fits)) {
    return Error(Errc::kLost, "sqlite store " + made->path() +
                                  ": the file or its log was moved, removed or replaced; what was "
                                  "held in it is lost");
  }
  if (!fits) return fits.error();
  return made;
}

// SQLite keeps a lock on the file itself for as long as a connection lives, by whatever name it was
// opened: who has FILE.use exclusively still shares the file with those who came to know it by
// another name, with a log and a FILE.use beside that one.
bool Database::is_alone() const {
  if (file_->identity().inode == 0) return true;
  sqlite3* db = nullptr;
  const int flags =
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_NOFOLLOW;
  const char* vfs = tuning_.vfs.empty() ? nullptr : tuning_.vfs.c_str();
  int code = sqlite3_open_v2(path().c_str(), &db, flags, vfs);
  for (const char* text :
       {"PRAGMA locking_mode = EXCLUSIVE", "SELECT count(*) FROM sqlite_schema"}) {
    if (code == SQLITE_OK) code = sqlite3_exec(db, text, nullptr, nullptr, nullptr);
  }
  sqlite3_close_v2(db);
  return (code & 0xff) != SQLITE_BUSY;  // Anything else is for connect() to tell.
}

Error Database::used_elsewhere() const {
  return {Errc::kStoreInUse,
          "sqlite store " + path() +
              ": somebody has this file open who cannot be seen here: under another name that it "
              "had, or with another program; stop them first (fuser -v " +
              path() + ")"};
}

// With the file to ourselves. False: somebody else came between.
Result<bool> Database::set_up() {
  const auto ceiling = adopt();
  if (!ceiling) return ceiling.error();
  // So that the file has its size from the start: on a full disk it could not grow to take the log.
  static_cast<void>(
      sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr));
  if (auto settled = file_->settle(*ceiling); !settled) return settled.error();
  if (auto set = execute(kSettings); !set) return set.error();
  if (!file_->share()) return false;
  waits_outside_ = true;
  return true;
}

// Only while no file is there: SQLite has none open that a close() of ours could unlock.
Result<void> Database::create_file() {
  const int fd = ::open(path().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0 && errno == EEXIST) return {};
  if (fd >= 0) {
    ::close(fd);
    return {};
  }
  if (errno == EACCES || errno == EPERM || errno == EROFS) {
    return permission_error(path(), std::string("cannot create it: ") + std::strerror(errno));
  }
  return Error(Errc::kUnavailable,
               "sqlite store " + path() + ": cannot create it: " + std::strerror(errno));
}

Result<void> Database::connect() {
  if (file_->exclusive()) {
    if (auto created = create_file(); !created) return created;
  }
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                    SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE;
  const char* vfs = tuning_.vfs.empty() ? nullptr : tuning_.vfs.c_str();
  remember_open(this);
  if (const int code = sqlite3_open_v2(path().c_str(), &db_, flags, vfs); code != SQLITE_OK) {
    return error(code);
  }
  sqlite3_busy_handler(db_, &Database::on_busy, this);
  const int made = sqlite3_create_function_v2(db_, "told", 1, SQLITE_UTF8 | SQLITE_DIRECTONLY, this,
                                              &Database::on_told, nullptr, nullptr, nullptr);
  if (made != SQLITE_OK) return error(made);
  const auto fresh = is_new();
  if (!fresh) return fresh.error();
  if (file_->exclusive()) {
    if (auto set = execute("PRAGMA journal_mode = WAL"); !set) return set;
  }
  auto set = execute(kSettings);
  sqlite3_wal_autocheckpoint(db_, static_cast<int>(log_pages_for(disk_size_at(folder_of(path())))));
  waits_outside_ = set && !file_->exclusive();
  return set;
}

// Empty, or Holdfast's in a format that is known.
Result<bool> Database::is_new() {
  const auto application = ask("PRAGMA application_id");
  if (!application) return application.error();
  const auto format = ask("PRAGMA user_version");
  if (!format) return format.error();
  if (*application == std::to_string(kApplicationId)) {
    if (*format == std::to_string(kFormat)) return false;
    return Error(Errc::kVersionMismatch, "sqlite store " + path() + ": was written in format " +
                                             *format + ", and this version knows " +
                                             std::to_string(kFormat) + ": upgrade Holdfast");
  }
  const auto tables = ask("SELECT count(*) FROM sqlite_schema");
  if (!tables) return tables.error();
  if (*application == "0" && *format == "0" && *tables == "0") return true;
  return corrupt("is an SQLite database, but not Holdfast's; choose another file");
}

Result<bool> Database::matches() {
  const auto fresh = is_new();
  if (!fresh) return fresh.error();
  if (*fresh) return false;
  Statement& load = get(Sql::kLoadMeta);
  const ResetAtEnd reset(load);
  const int code = load.step();
  if (code == SQLITE_DONE) return corrupt("its meta table is empty");
  if (code != SQLITE_ROW) return error(code);
  tokens_ = {load.integer(0), load.integer(1)};
  return static_cast<std::uint64_t>(load.integer(2)) == file_->identity().inode &&
         load.integer(3) == file_->identity().birth && load.text(4) == boot_ &&
         static_cast<std::uint64_t>(tokens_.ceiling) >= file_->noted_ceiling();
}

// With the file to ourselves: makes the tables, or voids what counts no longer, in a synced commit.
Result<std::uint64_t> Database::adopt() {
  const auto fresh = is_new();
  if (!fresh) return fresh.error();
  if (auto set = execute("PRAGMA synchronous = FULL; BEGIN EXCLUSIVE"); !set) return set.error();
  if (*fresh) {
    const std::string head = "PRAGMA application_id = " + std::to_string(kApplicationId) +
                             "; PRAGMA user_version = " + std::to_string(kFormat) +
                             "; INSERT INTO meta VALUES(1, 0, 0, '', 0, 0)";
    if (auto made = execute(kCreateTables); !made) return made.error();
    if (auto made = execute(head.c_str()); !made) return made.error();
  }
  FileIdentity identity;
  if (auto alone = LockFile::check_alone(path(), identity); !alone) return alone.error();
  const auto fits = matches();
  if (!fits) return fits.error();
  const bool same = *fits && identity.inode == file_->identity().inode;
  if (!same || !file_->log_whole()) {
    const auto noted = static_cast<std::int64_t>(
        std::min<std::uint64_t>(file_->noted_ceiling(), std::numeric_limits<std::int64_t>::max()));
    const std::int64_t used = std::max(tokens_.ceiling, noted);
    if (used > std::numeric_limits<std::int64_t>::max() / 2)
      return corrupt("the token ceiling is absurd");
    tokens_.floor = std::max(used + 1, wall_microseconds());
    tokens_.ceiling = tokens_.floor + static_cast<std::int64_t>(tuning_.token_block);
    if (!same) {
      if (auto done = execute(kVoidLeases); !done) return done.error();
    }
    Statement adopt;
    int code = adopt.prepare(db_, kAdoptFile);
    if (code == SQLITE_OK) {
      code = adopt.bind(1, static_cast<std::int64_t>(identity.inode))
                 .bind(2, identity.birth)
                 .bind_text(3, boot_)
                 .bind(4, tokens_.floor)
                 .bind(5, tokens_.ceiling)
                 .run();
    }
    if (code != SQLITE_OK) return error(code);
  }
  if (auto done = execute("COMMIT"); !done) return done.error();
  return static_cast<std::uint64_t>(tokens_.ceiling);
}

std::int64_t Database::now() const {
  if (tuning_.now) return tuning_.now().time_since_epoch().count();
  return std::chrono::duration_cast<std::chrono::microseconds>(
             base::host_boot_now().time_since_epoch())
      .count();
}

Statement& Database::get(Sql which) {
  const auto at = static_cast<std::size_t>(which);
  if (!prepared_[at]) prepared_[at] = statements_[at].prepare(db_, text_of(which)) == SQLITE_OK;
  return statements_[at];
}

Result<void> Database::execute(const char* text) {
  const int code = sqlite3_exec(db_, text, nullptr, nullptr, nullptr);
  if (code == SQLITE_OK) return {};
  const Error failed = error(code);
  roll_back();
  return failed;
}

Result<std::string> Database::ask(const char* text) {
  Statement statement;
  int code = statement.prepare(db_, text);
  if (code == SQLITE_OK) code = statement.step();
  if (code == SQLITE_ROW) return std::string(statement.text(0));
  return error(code);
}

Result<void> Database::begin() {
  tokens_wanted_ = false;
  const int code = get(Sql::kBegin).run();
  if (code != SQLITE_OK) return error(code);
  return {};
}

// A COMMIT that failed has changed nothing: without a sync in it, it is one write of the frame that
// makes the others count. What SQLite has not rolled back yet is rolled back here.
Result<void> Database::commit() {
  const int code = get(Sql::kCommit).run();
  if (code == SQLITE_OK) return {};
  const Error failed = error(code);
  roll_back();
  return failed;
}

void Database::roll_back() {
  if (sqlite3_get_autocommit(db_) == 0) get(Sql::kRollback).run();
}

Error Database::want_tokens() {
  tokens_wanted_ = true;
  return {Errc::kUnavailable, "tokens are wanted"};
}

Result<TokenRange> Database::load_tokens() {
  Statement& load = get(Sql::kLoadMeta);
  const ResetAtEnd reset(load);
  const int code = load.step();
  if (code == SQLITE_DONE) return corrupt("its meta table is empty");
  if (code != SQLITE_ROW) return error(code);
  tokens_ = {load.integer(0), load.integer(1)};
  return tokens_;
}

Result<void> Database::reserve_tokens() {
  tokens_wanted_ = false;
  const std::int64_t seen = tokens_.ceiling;
  if (auto set = execute("PRAGMA synchronous = FULL"); !set) return set;
  Result<void> done = begin();
  if (done) {
    const auto now = load_tokens();
    if (!now) {
      done = now.error();
    } else if (now->ceiling <= seen) {  // Otherwise somebody else has just done it.
      const std::int64_t ceiling = now->ceiling + static_cast<std::int64_t>(tuning_.token_block);
      const int code = get(Sql::kRaiseTokens).bind(1, ceiling).bind(2, now->floor).run();
      if (code != SQLITE_OK) done = error(code);
      tokens_.ceiling = ceiling;
    }
    if (done) {
      done = commit();
    } else {
      roll_back();
    }
  }
  if (done) {
    file_->note_ceiling(static_cast<std::uint64_t>(tokens_.ceiling));
  } else {
    tokens_.ceiling = seen;
  }
  if (auto set = execute("PRAGMA synchronous = NORMAL"); !set && done) return set;
  return done;
}

Error Database::error(int code) {
  if ((code & 0xff) == SQLITE_FULL) full_ = true;
  if (code == SQLITE_READONLY_DBMOVED || (code & 0xff) == SQLITE_IOERR ||
      (code & 0xff) == SQLITE_CANTOPEN) {
    moved();
  }
  return sql_error(code, db_, path());
}

bool Database::found_room() {
  if (!std::exchange(full_, false)) return false;
  int in_log = 0;
  int folded = 0;
  const int code =
      sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_PASSIVE, &in_log, &folded);
  return code == SQLITE_OK && in_log == folded;
}

Error Database::corrupt(const std::string& what) const {
  return {Errc::kCorruptState, "sqlite store " + path() + ": " + what};
}

bool Database::file_moved() {
  if (!moved_ && file_->moved()) moved_ = true;
  return moved_;
}

bool Database::moved() {
  if (!file_moved() && file_->log_moved()) moved_ = true;
  return moved_;
}

void Database::on_told(sqlite3_context* context, int, sqlite3_value** values) {
  const std::int64_t value = sqlite3_value_int64(values[0]);
  static_cast<Database*>(sqlite3_user_data(context))->told_ = value;
  sqlite3_result_int64(context, value);
}

// Commits of others take tens of microseconds, checkpoints and reservations milliseconds.
int Database::on_busy(void* self, int count) {
  auto& database = *static_cast<Database*>(self);
  const base::BootInstant now = base::BootClock::now();
  if (now >= database.deadline_) return 0;
  if (database.stop_at_ != nullptr) {
    const std::int64_t stop = database.stop_at_->load();
    if (stop != 0 && now.time_since_epoch().count() >= stop) return 0;
  }
  // Growing, and out of step with the others.
  const auto spread = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(self) / 64 % 31 +
                                                static_cast<std::uintptr_t>(count) * 7 % 31);
  const std::int64_t step = std::min<std::int64_t>(20 + std::int64_t{count} * 20, 1000);
  timespec time{};
  time.tv_nsec = (step + spread) * 1000;
  std::optional<OutsideSqlite> outside;
  if (database.waits_outside_) outside.emplace();
  ::nanosleep(&time, nullptr);
  return 1;
}

}  // namespace holdfast::stores::sqlite
