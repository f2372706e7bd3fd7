// Values as PostgreSQL's text format has them: parameters of a statement, and columns of a result.
//
// Thread-safety: values. Errors: a column of another type reads as zero or empty, as a NULL does;
// what is made of it is checked by those who read rows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <libpq-fe.h>

#include "src/machine/types.h"

namespace holdfast::stores::postgres {

// nullopt: NULL.
using Param = std::optional<std::string>;
using Params = std::vector<Param>;

// "\x00ff": a bytea.
std::string bytea_of(std::string_view bytes);
// 16 bytes; NULL: none.
std::string bytes_of(const machine::AcquisitionId& id);
Param param_of(const machine::AcquisitionId& id);

// Elements of an array parameter. None of them may need quotes but a bytea, which gets them.
class Array {
 public:
  void add(std::int64_t number) { add_word(std::to_string(number)); }
  void add_null() { add_word("NULL"); }
  void add_bytes(std::string_view bytes) { add_word("\"\\" + bytea_of(bytes) + '"'); }
  void add_id(const machine::AcquisitionId& id) { id ? add_bytes(bytes_of(id)) : add_null(); }
  void add_text(std::string_view plain) { add_word('"' + std::string(plain) + '"'); }

  // As the parameter of one value would be.
  void add_param(const Param& param) {
    if (!param) return add_null();
    add_word(param->starts_with('\\') ? "\"\\" + *param + '"' : *param);
  }

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

// The rows of a statement.
class Rows {
 public:
  explicit Rows(PGresult* result) : result_(result, &PQclear) {}

  int size() const { return PQntuples(result_.get()); }
  bool is_null(int row, int column) const { return PQgetisnull(result_.get(), row, column) != 0; }
  std::string_view text(int row, int column) const {
    return {PQgetvalue(result_.get(), row, column),
            static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
  }
  std::int64_t number(int row, int column) const;
  std::string bytes(int row, int column) const;
  machine::AcquisitionId id(int row, int column) const;

 private:
  std::shared_ptr<PGresult> result_;
};

// No id unless there are 16 bytes.
machine::AcquisitionId id_of(std::string_view bytes);
// "00ff" as bytes; whatever is no such text ends it.
std::string from_hex(std::string_view text);

}  // namespace holdfast::stores::postgres
