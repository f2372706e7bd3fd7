// Tables as locks.
#include <stdexcept>

#include "lab/exhibits/mistakes.h"
#include "lab/exhibits/on_redis.h"
#include "lab/exhibits/sqlite.h"

namespace holdfast::lab {
namespace {

class RowWithoutExpiry : public Mistake {
 public:
  explicit RowWithoutExpiry(const SubjectSetup& setup)
      : Mistake(setup), database_(setup.urls.at(0)) {
    database_.change("CREATE TABLE IF NOT EXISTS locks (name TEXT PRIMARY KEY, owner TEXT)");
  }

  // [region: row-without-expiry]
  bool take(const Ask& ask, Held& held) override {
    return database_.change("INSERT OR IGNORE INTO locks VALUES (?1, ?2)",
                            {ask.name, held.value}) == 1;
  }
  bool give_back(const Held& held) override {
    return database_.change("DELETE FROM locks WHERE name = ?1 AND owner = ?2",
                            {held.name, held.value}) == 1;
  }
  // [end]

 private:
  Sqlite database_;
};

class RedisThenSqlite : public Mistake {
 public:
  explicit RedisThenSqlite(const SubjectSetup& setup)
      : Mistake(setup), url_(setup.urls.at(0)), database_(setup.urls.at(1)) {
    database_.change("CREATE TABLE IF NOT EXISTS locks (name TEXT PRIMARY KEY, owner, until)");
  }

  // [region: fail-over]
  bool take(const Ask& ask, Held& held) override {
    try {
      return RedisClient(url_).set_nx(ask.name, held.value, ask.ttl);
    } catch (const std::runtime_error&) {  // Redis is down: the database is the lock now.
      return insert(ask, held);
    }
  }
  // [end]
  bool give_back(const Held& held) override {
    try {
      if (RedisClient(url_).delete_if(held.name, held.value)) return true;
    } catch (const std::runtime_error&) {
    }
    return database_.change("DELETE FROM locks WHERE name = ?1 AND owner = ?2",
                            {held.name, held.value}) == 1;
  }

 private:
  bool insert(const Ask& ask, const Held& held) {
    const std::string now = std::to_string(now_ns());
    database_.change("DELETE FROM locks WHERE name = ?1 AND until <= CAST(?2 AS INTEGER)",
                     {ask.name, now});
    return database_.change("INSERT OR IGNORE INTO locks VALUES (?1, ?2, CAST(?3 AS INTEGER))",
                            {ask.name, held.value, std::to_string(held.deadline_ns)}) == 1;
  }

  const std::string url_;
  Sqlite database_;
};

}  // namespace

SubjectKind row_without_expiry() {
  return mistake<RowWithoutExpiry>("row-without-expiry", "a unique row, until it is deleted");
}
SubjectKind redis_then_sqlite() {
  return mistake<RedisThenSqlite>("redis-then-sqlite", "a database where Redis cannot be reached");
}

}  // namespace holdfast::lab
