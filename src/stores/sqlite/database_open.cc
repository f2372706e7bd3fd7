// Opens a connection. The first user is alone with the file and adopts it; the others join.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "holdfast/detail/percent.h"
#include "src/base/writers_only.h"
#include "src/stores/sqlite/database.h"
#include "src/stores/sqlite/file/fork_gate.h"
#include "src/stores/sqlite/schema.h"

namespace holdfast::stores::sqlite {
namespace {

constexpr const char* kSettings = R"sql(
PRAGMA synchronous = NORMAL;
PRAGMA journal_size_limit = 67108864;
PRAGMA temp_store = MEMORY;
PRAGMA secure_delete = OFF;
PRAGMA cell_size_check = ON;
)sql";

}  // namespace

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
    // Another process came between, or the contents belong to another boot or file. Setting them up
    // again needs the file exclusively.
    want_exclusive = !*ready && !(*file)->exclusive();
  }
  return Error(
      Errc::kUnavailable,
      "sqlite store " + path + ": the file is replaced whenever it is opened; find out by what");
}

Result<std::unique_ptr<Database>> Database::open_another(std::shared_ptr<LockFile> file,
                                                         const SqliteTuning& tuning) {
  const InsideSqlite inside;
  std::unique_ptr<Database> made(new Database(std::move(file), tuning));
  // Checked before connect(), because SQLite would make a new log in place of one that was removed.
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

// The highest ceiling in the file without its log; nullopt: it cannot be read so.
std::optional<std::int64_t> Database::ceiling_in_file() const {
  std::string uri = "file:" + detail::percent_encode(
                                  path(), [](char c) { return c != '%' && c != '?' && c != '#'; });
  uri += "?immutable=1";
  sqlite3* db = nullptr;
  const char* vfs = tuning_.vfs.empty() ? nullptr : tuning_.vfs.c_str();
  const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX |
                    SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_NOFOLLOW;
  std::optional<std::int64_t> found;
  if (sqlite3_open_v2(uri.c_str(), &db, flags, vfs) == SQLITE_OK) {
    Statement load;
    if (load.prepare(db, kLoadMeta) == SQLITE_OK && load.step() == SQLITE_ROW) {
      found = load.integer(1);
    }
  }
  sqlite3_close_v2(db);
  return found;
}

// Holding FILE.use exclusively is not enough: a process that opened the file by another name has a
// log and a FILE.use beside that name. But SQLite locks the file itself while a connection lives,
// under any name.
bool Database::is_alone() {
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
  // Read before sqlite3_close_v2(), which folds the log into the file.
  if (code == SQLITE_OK) ceiling_in_file_ = ceiling_in_file();
  sqlite3_close_v2(db);
  return (code & 0xff) != SQLITE_BUSY;  // connect() reports all other failures.
}

Error Database::used_elsewhere() const {
  return {Errc::kStoreInUse,
          "sqlite store " + path() +
              ": another process has this file open under another name, or another program "
              "uses it; stop them first (fuser -v " +
              path() + ")"};
}

// With the file to ourselves. False: somebody else came between.
Result<bool> Database::set_up() {
  const auto adopted = adopt();
  if (!adopted) return adopted.error();
  // The file gets its size from the start, because on a full disk it could not grow to take the
  // log.
  if (adopted->renumbered) {
    static_cast<void>(
        sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr));
  }
  const bool forget = adopted->voided || !file_->named();
  if (auto settled = file_->settle(adopted->ceiling, forget); !settled) return settled.error();
  if (auto set = execute(kSettings); !set) return set.error();
  if (!file_->share()) return false;
  waits_outside_ = true;
  return true;
}

// Runs only while no file is there. So SQLite has none open that a close() of ours could unlock.
Result<void> Database::create_file() {
  const int fd = base::open_for_writers(path().c_str(), /*exclusive=*/true);
  if (fd < 0 && errno == EEXIST) return {};
  if (fd >= 0) {
    ::close(fd);
    return {};
  }
  if (errno == EACCES || errno == EPERM || errno == EROFS) {
    return permission_error(path(), std::string("cannot create it: ") + std::strerror(errno),
                            path());
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
  fold_every_ = log_pages_at(folder_of(path()));
  fold_at_ = fold_every_;
  sqlite3_wal_hook(db_, &Database::on_commit, this);  // In the place of SQLite's own checkpoints.
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
  if (const Result<void> found = step_to_meta(load); !found) return found.error();
  return static_cast<std::uint64_t>(load.integer(2)) == file_->identity().inode &&
         load.integer(3) == file_->identity().birth && load.text(4) == boot_ &&
         static_cast<std::uint64_t>(tokens_.ceiling) >= file_->noted_ceiling();
}

// Whether this state of the database lacks something that FILE.use notes. Exclusive only.
Result<bool> Database::is_older_copy() {
  if (!file_->named()) return false;
  if (static_cast<std::uint64_t>(tokens_.ceiling) < file_->noted_ceiling()) return true;
  if (ceiling_in_file_ && static_cast<std::uint64_t>(*ceiling_in_file_) < file_->noted_folded()) {
    return true;
  }
  for (const ReportedChange& change : file_->reported().all()) {
    Statement& last = get(Sql::kLastChange);
    const ResetAtEnd reset(last);
    const int code = last.bind(1, std::string_view(change.name)).step();
    if (code == SQLITE_DONE || (code == SQLITE_ROW && last.integer(0) < change.at)) return true;
    if (code != SQLITE_ROW) return error(code);
  }
  return false;
}

// With the file to ourselves: makes the tables, or voids what counts no longer, in a synced commit.
Result<Database::Adopted> Database::adopt() {
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
  const auto has_used = ask(kHasUsed);
  if (!has_used) return has_used.error();
  if (*has_used == "0") {
    if (auto added = execute(kAddUsed); !added) return added.error();
  }
  const auto fits = matches();
  if (!fits) return fits.error();
  const auto older = is_older_copy();
  if (!older) return older.error();
  Adopted adopted;
  adopted.voided = !*fits || *older;
  adopted.renumbered = adopted.voided || !file_->log_whole();
  if (auto done = take_over(adopted); !done) return done.error();
  if (auto done = execute("COMMIT"); !done) return done.error();
  if (*older) {
    alarm_ = "sqlite store " + path() +
             ": an older copy was put over the file, or its log was removed: changes that were "
             "reported are missing. All leases in it are void, and tokens start above " +
             std::to_string(tokens_.floor) + ". Look for what restores this file (a backup?)";
  }
  return adopted;
}

// Every first user begins above the wall clock. So even a copy that nothing gives away repeats no
// token, such as one that was put back with its FILE.use.
Result<void> Database::take_over(Adopted& adopted) {
  FileIdentity identity;
  if (auto alone = LockFile::check_alone(path(), identity); !alone) return alone.error();
  if (identity.inode != file_->identity().inode) adopted.voided = adopted.renumbered = true;
  const auto noted = static_cast<std::int64_t>(
      std::min<std::uint64_t>(file_->noted_ceiling(), std::numeric_limits<std::int64_t>::max()));
  const std::int64_t used = std::max(tokens_.ceiling, noted);
  if (used > std::numeric_limits<std::int64_t>::max() / 2)
    return corrupt("the token ceiling is out of range");
  const std::int64_t least = adopted.renumbered ? used + 1 : tokens_.floor;
  tokens_.floor = std::max(least, wall_now());
  const auto block = static_cast<std::int64_t>(tuning_.token_block);
  if (adopted.renumbered || tokens_.ceiling < tokens_.floor + block / 2) {
    tokens_.ceiling = tokens_.floor + block;
  }
  adopted.ceiling = static_cast<std::uint64_t>(tokens_.ceiling);
  if (adopted.voided) {
    // Leases of another boot count on another clock. Locks of an older copy may have
    // been given away since.
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
  return {};
}

}  // namespace holdfast::stores::sqlite
