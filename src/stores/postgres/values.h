// Values as PostgreSQL's text format has them: parameters of a statement, and columns of a result.
//
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <libpq-fe.h>

#include "src/base/hex.h"
#include "src/machine/types.h"
#include "src/sql/values.h"

namespace holdfast::stores::postgres {

using sql::Param;
using sql::Params;

// "\x00ff": a bytea.
inline std::string bytea_of(std::string_view bytes) { return "\\x" + base::hex_of(bytes); }
inline Param param_of(const machine::AcquisitionId& id) {
  if (!id) return std::nullopt;
  return bytea_of(sql::bytes_of(id));
}

// Elements of an array parameter. None of them may need quotes but a bytea, which gets them.
class Array {
 public:
  void add(std::int64_t number) { add_word(std::to_string(number)); }
  void add_null() { add_word("NULL"); }
  void add_bytes(std::string_view bytes) { add_word("\"\\" + bytea_of(bytes) + '"'); }
  void add_id(const machine::AcquisitionId& id) { id ? add_bytes(sql::bytes_of(id)) : add_null(); }
  void add_text(std::string_view plain) { add_word('"' + std::string(plain) + '"'); }

  std::size_t size() const { return size_; }
  Param param() const { return text_ + '}'; }

 private:
  void add_word(const std::string& word) {
    if (size_++ > 0) text_ += ',';
    text_ += word;
  }

  std::string text_ = "{";
  std::size_t size_ = 0;
};

// The rows of a statement; of one that gives none, as many without columns as it changed.
class PostgresRows final : public sql::Rows {
 public:
  explicit PostgresRows(PGresult* result) : result_(result, &PQclear) {}

  int size() const override {
    return PQresultStatus(result_.get()) == PGRES_COMMAND_OK ? std::atoi(PQcmdTuples(result_.get()))
                                                             : PQntuples(result_.get());
  }
  bool is_null(int row, int column) const override {
    return PQgetisnull(result_.get(), row, column) != 0;
  }
  std::string_view text(int row, int column) const override {
    if (column >= PQnfields(result_.get())) return {};
    return {PQgetvalue(result_.get(), row, column),
            static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
  }
  std::string bytes(int row, int column) const override {
    const std::string_view shown = text(row, column);
    return shown.starts_with("\\x") ? sql::from_hex(shown.substr(2)) : unescaped(row, column);
  }

 private:
  // Where the user, the database or the server has bytea_output = escape.
  std::string unescaped(int row, int column) const {
    const auto* shown =
        reinterpret_cast<const unsigned char*>(PQgetvalue(result_.get(), row, column));
    std::size_t size = 0;
    const std::unique_ptr<unsigned char, decltype(&PQfreemem)> bytes(
        PQunescapeBytea(shown, &size), &PQfreemem);
    return bytes ? std::string(reinterpret_cast<const char*>(bytes.get()), size) : std::string();
  }

  std::unique_ptr<PGresult, decltype(&PQclear)> result_;
};

}  // namespace holdfast::stores::postgres
