// Rows of a file of worker numbers: as they come, and with a true checksum, since no other way
// leads further in.

#include <string>

#include "src/base/fnv.h"
#include "src/base/random.h"
#include "src/ids/worker_row.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::id_rows {
namespace {

void read(const std::string& bytes) {
  bool later = false;
  if (const auto head = ids::parse_file_row(bytes, &later)) {
    demand(head->text() == bytes, "a file's row is written as it was read");
  }
  if (const auto row = ids::parse_worker_row(bytes)) {
    demand(ids::parse_worker_row(row->text()).has_value(), "a worker's row is read back");
  }
}

}  // namespace

void run(std::string_view input) {
  std::string bytes(input.substr(0, ids::kRowBytes));
  bytes.resize(ids::kRowBytes, '\0');
  read(bytes);
  std::string lines(input.substr(0, 480));
  lines += "sum " + base::to_hex(0, base::fnv1a(lines)) + "\n";
  lines.resize(ids::kRowBytes, '\0');
  read(lines);
}

}  // namespace holdfast::fuzz::id_rows

HOLDFAST_FUZZ_TARGET(id_rows)
