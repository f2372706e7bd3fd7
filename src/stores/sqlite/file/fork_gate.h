// SQLite and fork().
//
// SQLite remembers per process and file which POSIX locks it holds. A forked child inherits that
// memory, but not the locks. A connection that it opens to the same file would believe itself
// protected. The last process to leave would then remove the log under it. So a child lets go of
// its inheritance before it opens anything, without a trace in the file. For that, fork() waits
// until no thread is inside SQLite.
//
// Guarantee: after forget_inherited() SQLite knows nothing of the parent's connections. fork()
// waits for the statements that run just then, and for no others. It waits for the disk, but not
// for another process that keeps the database locked. (It may wait for SqliteTuning::patience while
// a file is opened whose users have another boot, name or log.)
// Not guaranteed: anything for a child that raw clone(2) made while a thread was inside; for other
// users of SQLite in this process.
// Thread-safety: safe. A thread that is inside must not wait for one that waits to get inside. So a
// mutex that both need is locked before entering.
#pragma once

namespace holdfast::stores::sqlite {

class Database;

// While one lives, this thread may be inside SQLite and fork() waits. May be nested.
class InsideSqlite {
 public:
  InsideSqlite();
  ~InsideSqlite();
  InsideSqlite(const InsideSqlite&) = delete;
  InsideSqlite& operator=(const InsideSqlite&) = delete;
};

// While one lives, a thread that is inside is not: where SQLite calls back because the database is
// busy. Its connection has neither a lock nor a transaction then, and can be let go of.
class OutsideSqlite {
 public:
  OutsideSqlite();
  ~OutsideSqlite();
  OutsideSqlite(const OutsideSqlite&) = delete;
  OutsideSqlite& operator=(const OutsideSqlite&) = delete;

 private:
  const int depth_;
};

// Called with InsideSqlite: by a database that opens, and by one that closes.
void remember_open(Database* database);
void forget_open(Database* database);

// Lets go of all that an ancestor had open. Called with InsideSqlite, before opening.
void forget_inherited();

}  // namespace holdfast::stores::sqlite
