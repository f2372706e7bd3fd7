// The suite of the guards needs this of a database: connections that do as they are told.
//
// A test program brings one Database; the suite is the same for all.
// Thread-safety: none. Errors: std::runtime_error where a test cannot go on.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/fence/sql.h"
#include "holdfast/mode.h"
#include "holdfast/optimistic.h"
#include "holdfast/result.h"
#include "holdfast/token.h"

namespace holdfast::fence {

struct Answer {
  std::vector<std::string> row{};  // The first one.
  std::size_t matched = 0;         // Rows, of a statement that writes.
};

class Session {
 public:
  virtual ~Session() = default;

  // Throws when it fails.
  virtual void run(const std::string& sql) = 0;
  // The first value of the answer; empty: there is none.
  virtual std::string ask(const std::string& sql) = 0;
  // How many rows the statement has matched.
  virtual std::size_t change(const std::string& sql) = 0;
  // Waits for locks as shortly as the database knows.
  virtual void be_impatient() = 0;
  // With its parameters bound, not written into the text.
  virtual Answer execute(const optimistic::Statement& statement) = 0;

  virtual Result<void> create_table() = 0;
  virtual Result<void> guard(const std::string& resource, const Token& token,
                             const Mode& mode = Mode::exclusive()) = 0;
};

class Database {
 public:
  virtual ~Database() = default;

  virtual std::unique_ptr<Session> connect() = 0;
  virtual sql::Dialect dialect() const = 0;
  // Statements that begin a transaction, one list per isolation level.
  virtual std::vector<std::vector<std::string>> beginnings() const = 0;
  // Statements that let anything be a token in holdfast_fence.
  virtual std::vector<std::string> without_check() const = 0;
  // Whether a shared holder's check is a lock, and not only a snapshot.
  virtual bool shared_locks() const { return true; }
};

// The program's own, made once.
Database& database();

}  // namespace holdfast::fence
