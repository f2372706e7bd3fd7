// Estimates the memory of a parsed Protocol Buffers message. Small messages inside take much more
// memory than their bytes.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace holdfast::stores::etcd {

// An upper bound for any kind of message, including its bytes.
std::size_t memory_to_read(std::string_view message);

}  // namespace holdfast::stores::etcd
