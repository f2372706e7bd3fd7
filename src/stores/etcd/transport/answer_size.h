// The memory that a message of Protocol Buffers takes when it is read: small ones in it take much
// more than their bytes.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace holdfast::stores::etcd {

// At least what the message and all in it take, its bytes included, of whatever kind it is.
std::size_t memory_to_read(std::string_view message);

}  // namespace holdfast::stores::etcd
