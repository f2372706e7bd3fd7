// Empties a buffer that is used again and again, and gives a large one back.
//
// clear() keeps the memory. So does the assignment of an empty string: libstdc++ copies a short
// string into the buffer that is there.
//
// Guarantee: afterwards the buffer is empty, and has room for at most `kept` bytes, or as much as a
// new string has.
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <string>

namespace holdfast::base {

inline void empty_buffer(std::string& buffer, std::size_t kept) {
  buffer.clear();
  if (buffer.capacity() > kept) std::string().swap(buffer);
}

}  // namespace holdfast::base
