// Values of statements and of their rows, free of any server's way to write them.
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

#include "src/machine/types.h"

namespace holdfast::sql {

// A parameter, as the server's client library takes it; nullopt: NULL.
using Param = std::optional<std::string>;
using Params = std::vector<Param>;

// The rows of a statement. Columns are counted from 0.
class Rows {
 public:
  virtual ~Rows() = default;
  virtual int size() const = 0;
  virtual bool is_null(int row, int column) const = 0;
  virtual std::string_view text(int row, int column) const = 0;
  virtual std::string bytes(int row, int column) const = 0;  // In a binary column.

  std::int64_t number(int row, int column) const;
  machine::AcquisitionId id(int row, int column) const;
};
using RowsPtr = std::shared_ptr<const Rows>;

// 16 bytes.
std::string bytes_of(const machine::AcquisitionId& id);
// No id unless there are 16 bytes.
machine::AcquisitionId id_of(std::string_view bytes);
// "00ff" as bytes; whatever is no such text ends it.
std::string from_hex(std::string_view text);

}  // namespace holdfast::sql
