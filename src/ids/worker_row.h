// The rows of a file of host workers, as texts with a checksum. Row 0 tells what the file is; row
// i + 1 is that of the i-th worker.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/ids/snowflake.h"

namespace holdfast::ids {

// A disk writes a sector whole, or the checksum finds out.
inline constexpr std::size_t kRowBytes = 512;

struct FileRow {
  std::string incarnation{};
  std::string layout{};
  std::string policy{};
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::string host{};
  std::uint64_t inode = 0;
  std::int64_t born_ns = 0;  // Two file systems may use one inode number. 0: it is not known.

  std::string text() const;
};

struct WorkerRow {
  std::string incarnation{};
  std::uint64_t worker = 0;
  std::int64_t reserved_until = 0;  // A unit. Ids so far have lower ones.
  std::int64_t pid = 0;
  std::int64_t since_ms = 0;
  Rounds rounds{};

  // kRowBytes of them; more rounds than fit are an error of the caller.
  std::string text() const;
};

// nullopt: damaged. `later`: it names a later version.
std::optional<FileRow> parse_file_row(std::string_view bytes, bool* later);
std::optional<WorkerRow> parse_worker_row(std::string_view bytes);

}  // namespace holdfast::ids
