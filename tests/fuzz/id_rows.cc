// Rows of a file of worker numbers, and texts of records in a store: as they come, and with a true
// checksum, since no other way leads further in.

#include <string>

#include "src/base/fnv.h"
#include "src/base/random.h"
#include "src/ids/record_text.h"
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

void read_record(const std::string& text) {
  if (const auto record = ids::RecordText::parse(text, "it")) {
    demand(ids::RecordText::parse(record->text(), record->kind(), "it").has_value(),
           "a record is read back");
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
  read_record(std::string(input));
  std::string record = "holdfast-ids 1\n" + std::string(input) + "\n";
  record += "checksum=" + base::to_hex(0, base::fnv1a(record)) + "\n";
  read_record(record);
}

}  // namespace holdfast::fuzz::id_rows

HOLDFAST_FUZZ_TARGET(id_rows)
