// A guarded resource as people write it: a row of a database that accepts a write if its token is
// not below the last one, `WHERE token <= ?`. So it cannot distinguish two holders with the same
// token.
//
// Thread-safety: one thread at a time; any number of processes have the same file.
// Errors: std::runtime_error.
#pragma once

#include <string>

#include "lab/exhibits/sqlite.h"
#include "lab/resource/resource.h"

namespace holdfast::lab {

class SqlGuard {
 public:
  // Creates the row if it is missing.
  explicit SqlGuard(const std::string& path);

  WriteAnswer write(Token token);

 private:
  Sqlite database_;
};

}  // namespace holdfast::lab
