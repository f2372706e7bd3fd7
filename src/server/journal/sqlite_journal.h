// The journal in a folder: one SQLite database in WAL mode, one synced transaction per batch.
//
//   FOLDER/lock         an OFD lock on it says that a server lives, and which one
//   FOLDER/journal.id   which journal the folder has (folder_identity.h)
//   FOLDER/journal.db   meta: one row with format, id, term, and the snapshot's head
//                       ring: a row per batch at number modulo the ring's size
//                       chunk: rows of the snapshot
//                       shard: where there are several shards, which one this is (folder_shards.h)
//                       an OFD lock on its last byte says that a server lives, without `lock`
//
// Batches overwrite the rows of old ones, because deleting rows stalls for up to 0.8 s.
//
// Guarantee: one process at a time has the folder open, for as long as it or a fork of it lives.
// Each commit and each look() compare the term in the database, and that database and log are still
// the files at their paths; otherwise kRefused. A commit that was answered survives `kill -9`, and
// a power failure if the disk syncs. open() tells a copy from the journal itself.
// Not guaranteed: that bytes written into the database's own file are noticed.
//
// Thread-safety: one thread at a time. Blocking: the disk.
// Errors: as Journal. kStoreInUse: another server has the folder. kUnsupported: a file system that
// several hosts share, or one that nobody tried.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "src/server/journal/folder_identity.h"
#include "src/server/journal/journal.h"

namespace holdfast::stores::sqlite {
class Statement;
}

namespace holdfast::server {

struct SqliteJournalOptions {
  std::string folder;  // The shard's own.
  // --- For tests.
  std::string vfs{};           // SQLite's; empty: the usual one.
  std::uint64_t room = 8'192;  // Batches in the ring. Fixed when the folder is made.
  std::chrono::milliseconds between_notes = port::RestoredWait::kNoteEvery;
  // ---
  // To look only: a server may run meanwhile. open() shows the journal of one instant; it takes no
  // lock, begins no term and writes nothing. Nothing that writes may be called.
  bool look_only = false;
  // Another name than FOLDER/journal.db: a backup's. For looks only.
  std::string file{};
  // The journal has to be this one. A look finds out. The first shard of a new journal makes the
  // databases of all others, before its own.
  port::ShardNumber shard{};
  // Set for those: the id of the first shard's journal.
  std::string first{};
};

class SqliteJournal final : public Journal {
 public:
  explicit SqliteJournal(SqliteJournalOptions options);
  ~SqliteJournal() override;
  SqliteJournal(const SqliteJournal&) = delete;
  SqliteJournal& operator=(const SqliteJournal&) = delete;

  Result<void> open() override;
  std::string id() const override { return id_; }
  std::string term() const override { return term_; }
  JournalAtOpen opening() const override { return opening_; }
  Result<void> settle() override;
  Commit look() override;
  DiskSpace space() const override;
  Result<SnapshotHead> head() override;
  Result<std::string> chunk(const SnapshotHead& head, std::uint32_t index) override;
  Result<std::uint64_t> last() override;
  Result<std::string> batch(std::uint64_t number) override;
  Commit commit(std::uint64_t number, std::string_view bytes) override;
  std::uint64_t room() const override { return room_; }
  Commit put_chunk(std::uint64_t batch, std::uint32_t index, std::string_view bytes) override;
  Commit put_head(const SnapshotHead& head) override;
  Result<bool> trim() override;
  std::string reason() const override { return reason_; }
  std::string place() const override { return options_.folder; }

  port::ShardNumber shard() const { return shard_; }
  // The id of the first shard's journal. All shards of a folder have the same.
  const std::string& first() const { return first_; }
  // After a look that failed: no journal has begun there.
  bool is_empty() const { return empty_; }

 private:
  struct Statements;
  struct FileId {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    bool operator==(const FileId&) const = default;
  };

  Result<void> open_folder();
  Result<void> open_files();
  Result<void> open_to_look();
  Result<void> check_folder();
  bool had_journal() const;
  Error lost_database(const std::string& what) const;
  Result<void> check_file_system(const std::string& at) const;
  Result<void> take_lock();
  Result<void> lock_database();
  Result<void> open_database();
  // Compares the folder's identity with the database.
  Result<void> identify_journal();
  Result<void> create_or_check();
  Result<void> create();
  // Makes another shard's database for create(), without a term.
  Result<void> prepare();
  Result<void> read_meta();
  Result<void> read_shard();
  Result<void> begin_term();
  // Notes how long a restored copy has waited. The caller writes it.
  void note_wait();
  Result<void> run(const char* text);
  Error error(int code) const;
  bool files_in_place();
  FileId file_at(const char* suffix) const;
  void close();
  // Runs the statement in one guarded, synced transaction.
  Commit guarded(stores::sqlite::Statement& write);
  Commit failed(int code);
  Commit moved();
  Commit replaced();
  std::string path() const {
    return options_.file.empty() ? options_.folder + "/journal.db" : options_.file;
  }

  SqliteJournalOptions options_;
  int lock_ = -1;
  int database_lock_ = -1;
  bool made_folder_ = false;
  bool made_database_ = false;
  bool has_term_ = false;
  bool lost_ = false;  // The files or the term are another's.
  bool empty_ = false;
  bool log_was_there_ = false;
  std::optional<FolderIdentity> identity_;  // As it is in the folder.
  JournalAtOpen opening_;
  base::BootInstant next_note_{};  // The wait of a restored copy is noted then.
  sqlite3* db_ = nullptr;
  std::unique_ptr<Statements> statements_;
  std::string id_;
  std::string term_;
  std::uint64_t room_ = 0;
  port::ShardNumber shard_;
  std::string first_;
  SnapshotHead head_;
  FileId database_;
  FileId log_;
  FileId shared_;
  bool dead_ = false;  // After an error whose outcome is not known.
  std::string reason_;
};

}  // namespace holdfast::server
