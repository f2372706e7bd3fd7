// A database file in as few words as the mistakes need.
//
// Thread-safety: one thread at a time. Blocking: up to 5 s for a lock of the file.
// Errors: std::runtime_error.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

struct sqlite3;

namespace holdfast::lab {

class Sqlite {
 public:
  // A path, or sqlite://PATH.
  explicit Sqlite(const std::string& path);

  // The first column of the first row; runs the statement to its end.
  std::optional<std::string> ask(const std::string& sql,
                                 const std::vector<std::string>& values = {});
  // Returns the number of changed rows.
  int change(const std::string& sql, const std::vector<std::string>& values = {});

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace holdfast::lab
