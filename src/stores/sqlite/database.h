// One connection to the database: opening and adopting the file, transactions, token blocks.
//
// Guarantee: no token above the ceiling in `meta` is given before a synced commit has raised it.
// Leases of another boot or another file are void before the first request. An error from
// transaction(), or from a statement outside one, means that nothing was applied.
// Thread-safety: none; one thread at a time.
// Time: requests end at set_deadline(); instants are the host's boot time in microseconds.
// Errors: kUnavailable, kCorruptState, kVersionMismatch, kPermissionDenied, kUnsupported,
// kStoreInUse.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/machine/types.h"
#include "src/stores/sqlite/file/lock_file.h"
#include "src/stores/sqlite/sql.h"
#include "src/stores/sqlite/sqlite_tuning.h"

namespace holdfast::stores::sqlite {

enum class Sql : std::uint8_t {
  kBegin,
  kBeginRead,
  kCommit,
  kRollback,
  kFastAcquire,
  kFastRelease,
  kFastRenew,
  kBeat,
  kAhead,
  kNextExpiry,
  kLookHeld,
  kLoadMeta,
  kLoadLock,
  kListLocks,
  kLoadTickets,
  kLoadTicket,
  kLoadOddTickets,
  kSaveLock,
  kSaveTicket,
  kDropTicket,
  kSaveValue,
  kSaveBroken,
  kLoadExtras,
  kRaiseTokens,
  kLastChange,
  kIdleLocks,
  kForgetLock,
  kForgetExtras,
  kCount,
};

struct TokenRange {
  std::int64_t floor = 0;    // Every new token is above it.
  std::int64_t ceiling = 0;  // No token is above it.
};

class Database {
 public:
  // Opens, creating or adopting the file where it has to be.
  static Result<std::unique_ptr<Database>> open(const std::string& path,
                                                const SqliteTuning& tuning);
  // One more connection to a file that is open already.
  static Result<std::unique_ptr<Database>> open_another(std::shared_ptr<LockFile> file,
                                                        const SqliteTuning& tuning);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // In a forked child: closes the parent's connection here, without locks, checkpoint or a trace.
  void let_go_after_fork();

  void set_deadline(base::BootInstant deadline) { deadline_ = deadline; }
  // Nothing waits for a busy database beyond that instant (boot time in ns; 0: not set) either,
  // which may be set while a request runs. It outlives the database.
  void stop_at(const std::atomic<std::int64_t>* instant) { stop_at_ = instant; }
  std::int64_t now() const;
  static std::int64_t wall_now();  // Microseconds.

  // Statements are prepared when first used; a failure shows when one is stepped.
  Statement& get(Sql which);

  // Runs `body` (-> Result<void>) between BEGIN IMMEDIATE and COMMIT; again, from scratch, when it
  // called for tokens.
  template <typename Body>
  Result<void> transaction(Body&& body) {
    Result<void> done;
    for (int attempt = 0; attempt < 3; ++attempt) {
      if (auto begun = begin(); !begun) return begun;
      done = body();
      if (done) done = commit();
      if (done) return done;
      roll_back();
      if (tokens_wanted_) done = reserve_tokens();
      if (!done && !found_room()) return done;
    }
    if (!done) return done;
    return Error(Errc::kCorruptState,
                 "sqlite store " + path() + ": a token lies above the ceiling");
  }
  // The same, reading one state of the database.
  template <typename Body>
  Result<void> snapshot(Body&& body) {
    if (const int code = get(Sql::kBeginRead).run(); code != SQLITE_OK) return error(code);
    Result<void> done = body();
    roll_back();
    return done;
  }

  // Inside a transaction: rolls back, reserves and starts again.
  Error want_tokens();
  Result<TokenRange> load_tokens();  // Inside a transaction: as they are now.
  bool tokens_wanted() const { return tokens_wanted_; }
  const TokenRange& tokens() const { return tokens_; }  // As they were last seen.

  // Some step since the transaction began, or just now outside of one, has changed that lock. Its
  // row bears this instant since. Noted once it is committed (reported_changes.h).
  void changed(std::string_view name, std::int64_t at);

  // Folds the log into the file when it is long; called outside of a transaction, after requests.
  void fold_long_log();

  // SQLITE_CORRUPT and the like name this file; a file that went is noticed.
  Error error(int code);
  Error corrupt(const std::string& what) const;

  // Outside of a transaction: the last failure was a full disk, and the log has been folded into
  // the file since. So the log's room can be used again. True once per failure.
  bool found_room();

  // Something else than what this connection uses is at the path: another file; for moved(), also
  // another log. Nobody can work with that while this one lives, so a grant need not ask for it.
  bool file_moved();
  bool moved();  // Both also remember.
  bool known_as_moved() const { return moved_; }

  const std::shared_ptr<LockFile>& file() const { return file_; }
  const std::string& path() const { return file_->path(); }
  const SqliteTuning& tuning() const { return tuning_; }
  sqlite3* handle() { return db_; }
  // A note for the operator on the state of the file when it was opened; empty: nothing.
  const std::string& alarm() const { return alarm_; }
  std::int64_t changes() const { return sqlite3_changes64(db_); }
  std::int64_t told() const { return told_; }  // The last value that a statement's told() saw.
  Result<std::string> ask(const char* text);   // The first column of the first row.

 private:
  Database(std::shared_ptr<LockFile> file, const SqliteTuning& tuning);
  Result<void> connect();
  Result<bool> set_up();
  bool is_alone();
  std::optional<std::int64_t> ceiling_in_file() const;
  Result<bool> is_older_copy();
  Error used_elsewhere() const;
  Result<void> create_file();
  Result<void> execute(const char* text);
  Result<bool> is_new();
  Result<bool> matches();
  // Steps to the one row of meta and keeps its range of tokens.
  Result<void> step_to_meta(Statement& load);
  struct Adopted {
    std::uint64_t ceiling = 0;
    bool voided = false;      // Leases, and what was noted of them.
    bool renumbered = false;  // Tokens start above everything given before.
  };
  Result<Adopted> adopt();
  Result<void> take_over(Adopted& adopted);
  Result<void> begin();
  Result<void> commit();
  void roll_back();
  Result<void> reserve_tokens();
  // Unless somebody else has raised it above what was `seen`.
  Result<void> raise_ceiling(std::int64_t tokens, std::int64_t seen);
  static int on_commit(void* self, sqlite3*, const char*, int log_pages);
  static int on_busy(void* self, int count);
  static void on_told(sqlite3_context* context, int count, sqlite3_value** values);

  std::shared_ptr<LockFile> file_;
  const SqliteTuning& tuning_;
  std::string boot_;
  sqlite3* db_ = nullptr;
  std::array<Statement, static_cast<std::size_t>(Sql::kCount)> statements_;
  std::array<bool, static_cast<std::size_t>(Sql::kCount)> prepared_{};
  base::BootInstant deadline_{};
  const std::atomic<std::int64_t>* stop_at_ = nullptr;
  TokenRange tokens_;
  bool tokens_wanted_ = false;
  bool moved_ = false;
  bool full_ = false;
  bool waits_outside_ = false;  // fork() need not wait for a busy database: the WAL is set up.
  std::int64_t told_ = 0;
  const std::uint64_t connection_;
  std::string changed_;  // In the transaction that runs.
  std::int64_t changed_at_ = 0;
  int log_pages_ = 0;  // After this connection's last commit.
  int fold_at_ = 0;    // When there are so many.
  int fold_every_ = 0;
  std::optional<std::int64_t> ceiling_in_file_;  // Without the log that was found.
  std::string alarm_;
};

}  // namespace holdfast::stores::sqlite
