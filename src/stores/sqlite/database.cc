#include "src/stores/sqlite/database.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "src/base/random.h"
#include "src/stores/sqlite/file/fork_gate.h"
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
    case Sql::kLastChange: return kLastChange;
    case Sql::kIdleLocks: return kIdleLocks;
    case Sql::kForgetLock: return kForgetLock;
    case Sql::kForgetExtras: return kForgetExtras;
    case Sql::kCount: break;
  }
  return "";
}

}  // namespace

Database::Database(std::shared_ptr<LockFile> file, const SqliteTuning& tuning)
    : file_(std::move(file)),
      tuning_(tuning),
      boot_(tuning.boot_id.empty() ? read_boot_id() : tuning.boot_id),
      deadline_(base::BootClock::now() + 5s),
      connection_(base::random_128().low) {}

Database::~Database() {
  const InsideSqlite inside;
  forget_open(this);
  for (Statement& statement : statements_) statement.finalize();
  file_->leaving();
  // SQLite notices by itself when the file has gone, and leaves the -wal of its successor alone.
  sqlite3_close_v2(db_);
}

// The parent is still there with its locks, or has left the file in order. So this closes
// descriptors and gives memory back. It takes none of the steps by which the last user of a file
// leaves.
void Database::let_go_after_fork() {
  for (Statement& statement : statements_) statement.finalize();
  // A thread of the parent may have been waiting with other statements.
  while (sqlite3_stmt* left = sqlite3_next_stmt(db_, nullptr)) sqlite3_finalize(left);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_close_v2(db_);
  db_ = nullptr;
  file_->abandon();
}

std::int64_t Database::now() const {
  if (tuning_.now) return tuning_.now().time_since_epoch().count();
  return std::chrono::duration_cast<std::chrono::microseconds>(
             base::host_boot_now().time_since_epoch())
      .count();
}

std::int64_t Database::wall_now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(base::wall_now().time_since_epoch())
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
  changed_.clear();
  const int code = get(Sql::kBegin).run();
  if (code != SQLITE_OK) return error(code);
  return {};
}

// A COMMIT that failed has changed nothing. It has no sync, so it is one write: the frame that
// makes the others count. If SQLite has not rolled back yet, this does.
Result<void> Database::commit() {
  const int code = get(Sql::kCommit).run();
  if (code == SQLITE_OK) {
    if (!changed_.empty()) file_->reported().note(connection_, changed_, changed_at_);
    return {};
  }
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
  if (const Result<void> found = step_to_meta(load); !found) return found.error();
  return tokens_;
}

Result<void> Database::step_to_meta(Statement& load) {
  const int code = load.step();
  if (code == SQLITE_DONE) return corrupt("its meta table is empty");
  if (code != SQLITE_ROW) return error(code);
  tokens_ = {load.integer(0), load.integer(1)};
  return {};
}

void Database::changed(std::string_view name, std::int64_t at) {
  if (sqlite3_get_autocommit(db_) != 0) return file_->reported().note(connection_, name, at);
  // Any one of a transaction's changes stands for all of them.
  changed_ = name;
  changed_at_ = at;
}

Result<void> Database::reserve_tokens() {
  tokens_wanted_ = false;
  return raise_ceiling(static_cast<std::int64_t>(tuning_.token_block), tokens_.ceiling);
}

Result<void> Database::raise_ceiling(std::int64_t tokens, std::int64_t seen) {
  const std::int64_t before = tokens_.ceiling;
  // Tokens below a ceiling are given without a sync. So the ceiling itself must be on the disk
  // before the first of them.
  if (auto set = execute("PRAGMA synchronous = FULL"); !set) return set;
  Result<void> done = begin();
  if (done) {
    const auto now = load_tokens();
    if (!now) {
      done = now.error();
    } else if (now->ceiling <= seen) {  // Otherwise somebody else has just done it.
      const std::int64_t ceiling = now->ceiling + tokens;
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
    tokens_.ceiling = before;
  }
  if (auto set = execute("PRAGMA synchronous = NORMAL"); !set && done) return set;
  return done;
}

int Database::on_commit(void* self, sqlite3*, const char*, int log_pages) {
  static_cast<Database*>(self)->log_pages_ = log_pages;
  return SQLITE_OK;
}

// Once a log is folded whole, the next commit begins another one in its place. From then on only
// the file has what was in it. So the file gets a ceiling of its own just before. An older copy of
// the file is then known by its lower ceiling, whatever log is beside it.
void Database::fold_long_log() {
  if (log_pages_ < fold_at_) return;
  const auto raised = raise_ceiling(1, std::numeric_limits<std::int64_t>::max());
  if (!raised && !std::exchange(full_, false)) return;  // Busy: after the next commit.
  int in_log = 0;
  int folded = 0;
  const int code =
      sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_PASSIVE, &in_log, &folded);
  const bool whole = code == SQLITE_OK && in_log == folded;
  if (whole && raised) file_->note_folded(static_cast<std::uint64_t>(tokens_.ceiling));
  // Somebody still reads from the log: not again after each commit.
  fold_at_ = whole ? fold_every_ : log_pages_ + fold_every_ / 8 + 1;
  log_pages_ = 0;
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
  // fork() need not wait for this sleep, since the connection holds nothing while it waits.
  std::optional<OutsideSqlite> outside;
  if (database.waits_outside_) outside.emplace();
  ::nanosleep(&time, nullptr);
  return 1;
}

}  // namespace holdfast::stores::sqlite
