// The memory that this process has allocated, for tests of what stays allocated.
//
// Thread-safety: any thread.
#pragma once

#include <malloc.h>

#include <cstddef>
#include <string>

namespace holdfast::server::testing {

inline std::size_t allocated() {
  const auto now = ::mallinfo2();
  return now.uordblks + now.hblkhd;
}

// A sanitizer's allocator does not tell what it has given.
inline bool counts_memory() {
  const std::size_t before = allocated();
  const std::string probe(std::size_t{1} << 20U, 'x');
  return allocated() >= before + probe.size();
}

}  // namespace holdfast::server::testing
