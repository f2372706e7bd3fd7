#include "lab/exhibits/sqlite.h"

#include <sqlite3.h>

#include <stdexcept>
#include <string_view>

namespace holdfast::lab {

void Sqlite::Close::operator()(sqlite3* database) const { ::sqlite3_close(database); }

Sqlite::Sqlite(const std::string& path) {
  constexpr std::string_view kScheme = "sqlite://";
  const std::string file = path.rfind(kScheme, 0) == 0 ? path.substr(kScheme.size()) : path;
  sqlite3* opened = nullptr;
  const int code = ::sqlite3_open(file.c_str(), &opened);
  database_.reset(opened);
  if (code != SQLITE_OK) throw std::runtime_error("cannot open " + file);
  ::sqlite3_busy_timeout(opened, 5000);
}

std::optional<std::string> Sqlite::ask(const std::string& sql,
                                       const std::vector<std::string>& values) {
  sqlite3_stmt* prepared = nullptr;
  const auto check = [&](bool fine) {
    if (!fine)
      throw std::runtime_error(std::string("sqlite: ") + ::sqlite3_errmsg(database_.get()));
  };
  check(::sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &prepared, nullptr) == SQLITE_OK);
  const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(prepared,
                                                                        ::sqlite3_finalize);
  for (std::size_t i = 0; i < values.size(); ++i) {
    check(::sqlite3_bind_text(prepared, static_cast<int>(i) + 1, values[i].c_str(), -1,
                              SQLITE_TRANSIENT) == SQLITE_OK);
  }
  std::optional<std::string> first;
  int code = ::sqlite3_step(prepared);
  for (; code == SQLITE_ROW; code = ::sqlite3_step(prepared)) {
    const auto* text = reinterpret_cast<const char*>(::sqlite3_column_text(prepared, 0));
    if (!first) first = text == nullptr ? "" : text;
  }
  check(code == SQLITE_DONE);
  return first;
}

int Sqlite::change(const std::string& sql, const std::vector<std::string>& values) {
  ask(sql, values);
  return ::sqlite3_changes(database_.get());
}

}  // namespace holdfast::lab
