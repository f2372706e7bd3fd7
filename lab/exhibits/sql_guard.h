// A guarded resource as people write it: a row of a database that takes a write whose token is not
// below the last one, `WHERE token <= ?`. So it cannot tell two holders with the same token.
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
  // Makes the row when it is not there.
  explicit SqlGuard(const std::string& path);

  WriteAnswer write(Token token);

 private:
  Sqlite database_;
};

}  // namespace holdfast::lab
