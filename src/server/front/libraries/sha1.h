// SHA-1 (RFC 3174). Redis and its libraries name scripts by it, and the gate keeps what it has seen
// of passwords in memory by it, behind a secret. Nothing else may rest on it: it is here because
// libholdfast links no library for cryptography.
//
// Thread-safety: a pure function.
#pragma once

#include <string>
#include <string_view>

namespace holdfast::server {

// 40 lower-case hexadecimal digits.
std::string sha1_hex(std::string_view text);

}  // namespace holdfast::server
