#include "src/stores/sqlite/records.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "src/stores/sqlite/database.h"
#include "src/stores/sqlite/file/fork_gate.h"

namespace holdfast::stores::sqlite {
namespace {

using base::BootClock;
using base::BootInstant;
using port::Record;

constexpr const char* kMake =
    "CREATE TABLE IF NOT EXISTS records(key BLOB PRIMARY KEY, version INTEGER NOT NULL,"
    " text BLOB NOT NULL) WITHOUT ROWID";
constexpr const char* kIsThere = "SELECT count(*) FROM sqlite_schema WHERE name = 'records'";
constexpr const char* kRead = "SELECT version, text FROM records WHERE key = ?1";
constexpr const char* kCreate =
    "INSERT INTO records(key, version, text) VALUES(?1, 1, ?2) ON CONFLICT DO NOTHING";
constexpr const char* kReplace =
    "UPDATE records SET version = version + 1, text = ?2 WHERE key = ?1 AND version = ?3";

class SqliteRecords final : public port::Records {
 public:
  explicit SqliteRecords(std::string path) : path_(std::move(path)) {}
  ~SqliteRecords() override {
    const InsideSqlite inside;
    database_.reset();
  }

  Result<void> open(BootInstant by) {
    if (database_ && database_->moved()) database_.reset();
    if (!database_) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(by - BootClock::now());
      tuning_.patience = std::clamp(left, std::chrono::milliseconds(50), SqliteTuning().patience);
      auto opened = Database::open(path_, tuning_);
      if (!opened) return opened.error();
      database_ = *std::move(opened);
      has_table_ = false;
    }
    database_->set_deadline(by);
    return {};
  }

  Result<std::optional<Record>> read(const std::string& key, BootInstant by) override {
    const InsideSqlite inside;
    if (auto ready = open(by); !ready) return ready.error();
    const auto found = find_table();
    if (!found) return found.error();
    std::optional<Record> record;
    if (*found) {
      Statement load;
      int code = load.prepare(database_->handle(), kRead);
      if (code == SQLITE_OK) code = load.bind(1, std::string_view(key)).step();
      if (code != SQLITE_ROW && code != SQLITE_DONE) return database_->error(code);
      if (code == SQLITE_ROW) {
        record = {std::string(load.blob(1)), static_cast<std::uint64_t>(load.integer(0))};
      }
    }
    if (database_->moved()) return moved(Errc::kUnavailable);
    return record;
  }

  Result<std::optional<std::uint64_t>> create(const std::string& key, const std::string& text,
                                              BootInstant by) override {
    return change(by, 1, [&]() -> Result<bool> {
      Statement make;
      int code = make.prepare(database_->handle(), kMake);
      if (code == SQLITE_OK) code = make.run();
      if (code != SQLITE_OK) return database_->error(code);
      return write(kCreate, key, text, 0);
    });
  }

  Result<std::optional<std::uint64_t>> replace(const std::string& key, std::uint64_t version,
                                               const std::string& text, BootInstant by) override {
    return change(by, version + 1, [&]() -> Result<bool> {
      const auto found = find_table();
      if (!found || !*found) return found;
      return write(kReplace, key, text, version);
    });
  }

  std::string forgets() const override {
    const auto system = file_system_at(folder_of(database_ ? database_->path() : path_));
    if (!system || (system->name != "tmpfs" && system->name != "ramfs")) return {};
    return "the file system of " + path_ + " is in memory (" + system->name +
           "): its records end with the host's boot";
  }

 private:
  // Runs `body` (-> whether it changed something) in a synced transaction.
  template <typename Body>
  Result<std::optional<std::uint64_t>> change(BootInstant by, std::uint64_t becomes, Body&& body) {
    const InsideSqlite inside;
    if (!dead_.empty()) return Error(Errc::kUnavailable, dead_ + "; open the records anew");
    if (auto ready = open(by); !ready) return ready.error();
    // The reservation of tokens sets it back.
    if (auto set = run("PRAGMA synchronous = FULL"); !set) return set.error();
    if (auto begun = run("BEGIN IMMEDIATE"); !begun) return begun.error();
    const Result<bool> changed = body();
    if (!changed || !*changed) {
      static_cast<void>(run("ROLLBACK"));
      static_cast<void>(database_->found_room());
      if (!changed) return changed.error();
      return std::optional<std::uint64_t>();
    }
    if (auto committed = run("COMMIT"); !committed) return doubtful(committed.error());
    if (database_->moved()) return moved(Errc::kOutcomeUnknown);
    database_->fold_long_log();
    return std::optional(becomes);
  }

  // The log may hold the change although SQLite could not end the commit.
  Error doubtful(const Error& failed) {
    const int kind = sqlite3_extended_errcode(database_->handle()) & 0xff;
    if (kind != SQLITE_BUSY && kind != SQLITE_FULL) dead_ = failed.message();
    if (sqlite3_get_autocommit(database_->handle()) == 0) static_cast<void>(run("ROLLBACK"));
    static_cast<void>(database_->found_room());
    return {Errc::kOutcomeUnknown, failed.message()};
  }

  Result<bool> write(const char* text, const std::string& key, const std::string& value,
                     std::uint64_t version) {
    Statement statement;
    int code = statement.prepare(database_->handle(), text);
    if (code == SQLITE_OK) {
      statement.bind(1, std::string_view(key)).bind(2, std::string_view(value));
      if (version != 0) statement.bind(3, static_cast<std::int64_t>(version));
      code = statement.run();
    }
    if (code != SQLITE_OK) return database_->error(code);
    return database_->changes() > 0;
  }

  Result<bool> find_table() {
    if (has_table_) return true;
    const auto count = database_->ask(kIsThere);
    if (!count) return count.error();
    has_table_ = *count != "0";
    return has_table_;
  }

  Result<void> run(const char* text) {
    const int code = sqlite3_exec(database_->handle(), text, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) return database_->error(code);
    return {};
  }

  Error moved(Errc code) const {
    return {code, "sqlite store " + path_ +
                      ": the file or its log was moved or replaced meanwhile; the file at the path "
                      "is opened next"};
  }

  const std::string path_;
  SqliteTuning tuning_{};  // Outlives the database.
  std::unique_ptr<Database> database_;
  bool has_table_ = false;
  std::string dead_;  // Why a change could not be synced; empty: none failed.
};

}  // namespace

Result<std::unique_ptr<port::Records>> open_records(const std::string& path, BootInstant open_by) {
  auto made = std::make_unique<SqliteRecords>(path);
  const InsideSqlite inside;
  if (auto opened = made->open(open_by); !opened) return opened.error();
  return std::unique_ptr<port::Records>(std::move(made));
}

}  // namespace holdfast::stores::sqlite
