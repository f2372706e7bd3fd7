#include "src/sql/values.h"

#include <charconv>

namespace holdfast::sql {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

void put(std::string& out, std::uint64_t word) {
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(word >> shift));
}

std::uint64_t take(std::string_view bytes) {
  std::uint64_t word = 0;
  for (const char c : bytes) word = (word << 8U) | static_cast<unsigned char>(c);
  return word;
}

}  // namespace

std::int64_t Rows::number(int row, int column) const {
  const std::string_view digits = text(row, column);
  std::int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

machine::AcquisitionId Rows::id(int row, int column) const { return id_of(bytes(row, column)); }

std::string bytes_of(const machine::AcquisitionId& id) {
  std::string bytes;
  put(bytes, id.high);
  put(bytes, id.low);
  return bytes;
}

machine::AcquisitionId id_of(std::string_view bytes) {
  if (bytes.size() != 16) return {};
  return {take(bytes.substr(0, 8)), take(bytes.substr(8))};
}

std::string from_hex(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t at = 0; at + 1 < text.size(); at += 2) {
    const int high = digit(text[at]);
    const int low = digit(text[at + 1]);
    if (high < 0 || low < 0) break;
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  return bytes;
}

}  // namespace holdfast::sql
