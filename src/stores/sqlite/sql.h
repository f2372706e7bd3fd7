// A thin layer over sqlite3: statements that end with their scope, and errors in Holdfast's words.
//
// Thread-safety: none; a connection and its statements belong to one thread at a time.
// Ownership: a Statement must not outlive its connection.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/result.h"
#include "src/machine/types.h"

namespace holdfast::stores::sqlite {

class Statement {
 public:
  Statement() = default;
  ~Statement() { finalize(); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // SQLite's result code. `text` is kept by nobody.
  int prepare(sqlite3* db, std::string_view text);
  void finalize();

  // Parameters count from 1. Blobs and ids are not copied: they must live until reset().
  Statement& bind(int at, std::int64_t value);
  Statement& bind(int at, std::string_view blob);
  Statement& bind(int at, const machine::AcquisitionId& id);  // None is NULL.
  Statement& bind(int at, machine::AcquisitionId&& id) = delete;
  Statement& bind_text(int at, std::string_view text);
  Statement& bind_null(int at);

  // The error of prepare(), if it failed.
  int step() { return handle_ != nullptr ? sqlite3_step(handle_) : code_; }
  // Steps to the end and resets; SQLITE_OK, or what went wrong.
  int run();
  void reset() { sqlite3_reset(handle_); }

  std::int64_t integer(int column) const { return sqlite3_column_int64(handle_, column); }
  // Valid until the next step or reset.
  std::string_view blob(int column) const;
  std::string_view text(int column) const;
  machine::AcquisitionId id(int column) const;  // None for NULL and for what is no id.
  bool is_null(int column) const { return sqlite3_column_type(handle_, column) == SQLITE_NULL; }

 private:
  sqlite3_stmt* handle_ = nullptr;
  int code_ = SQLITE_MISUSE;
};

// Resets a statement when the scope ends, so that no read transaction is left open.
class ResetAtEnd {
 public:
  explicit ResetAtEnd(Statement& statement) : statement_(statement) {}
  ~ResetAtEnd() { statement_.reset(); }
  ResetAtEnd(const ResetAtEnd&) = delete;
  ResetAtEnd& operator=(const ResetAtEnd&) = delete;

 private:
  Statement& statement_;
};

// The error for a result code of a call that changed nothing, or was rolled back since.
// `path` is the database.
Error sql_error(int code, sqlite3* db, const std::string& path);

// kPermissionDenied for the database at `path`. `refused` is the file or folder that could not be
// used. The message tells its owner, its mode and what to change.
Error permission_error(const std::string& path, const std::string& what,
                       const std::string& refused);

}  // namespace holdfast::stores::sqlite
