// Mistakes that use tables as locks.
#include <chrono>
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

// The schema of many articles. The clock of each client decides whether a row has expired.
class RowWithExpiry : public Mistake {
 public:
  RowWithExpiry(const SubjectSetup& setup, std::chrono::milliseconds clock_error)
      : Mistake(setup), clock_error_(clock_error), database_(setup.urls.at(0)) {
    database_.change(
        "CREATE TABLE IF NOT EXISTS distributed_lock (lock_name TEXT UNIQUE, lock_value TEXT,"
        " expire_time INTEGER, create_time INTEGER)");
  }

  // [region: client-clock-expiry]
  bool take(const Ask& ask, Held& held) override {
    const std::string now = in_ms(my_clock());
    const std::string until = in_ms(my_clock() + ask.ttl);
    if (database_.change("INSERT OR IGNORE INTO distributed_lock VALUES (?1, ?2, ?3, ?4)",
                         {ask.name, held.value, until, now}) == 1) {
      return true;
    }
    return database_.change(  // It has expired: it is taken over.
               "UPDATE distributed_lock SET lock_value = ?2, expire_time = ?3"
               " WHERE lock_name = ?1 AND expire_time < CAST(?4 AS INTEGER)",
               {ask.name, held.value, until, now}) == 1;
  }
  // [end]
  bool give_back(const Held& held) override {
    return database_.change("DELETE FROM distributed_lock WHERE lock_name = ?1 AND lock_value = ?2",
                            {held.name, held.value}) == 1;
  }

 protected:
  int change(const std::string& sql, const std::vector<std::string>& values) {
    return database_.change(sql, values);
  }

 private:
  std::chrono::milliseconds my_clock() const {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now) + clock_error_;
  }

  const std::chrono::milliseconds clock_error_;
  Sqlite database_;
};

class DeleteWithoutOwner : public RowWithExpiry {
 public:
  explicit DeleteWithoutOwner(const SubjectSetup& setup) : RowWithExpiry(setup, {}) {}

  // [region: delete-without-owner]
  bool give_back(const Held& held) override {
    return change("DELETE FROM distributed_lock WHERE lock_name = ?1", {held.name}) == 1;
  }
  // [end]
};

}  // namespace

SubjectKind row_without_expiry() {
  return mistake<RowWithoutExpiry>("row-without-expiry", "a unique row, until it is deleted");
}
SubjectKind client_clock_expiry(std::chrono::milliseconds clock_error) {
  return mistake<RowWithExpiry>("client-clock-expiry", "a row that ends by the clients' clocks",
                                clock_error);
}
SubjectKind delete_without_owner() {
  return mistake<DeleteWithoutOwner>("delete-without-owner", "a row that anybody may delete");
}

}  // namespace holdfast::lab
