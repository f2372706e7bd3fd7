// Passwords as the host's own password files keep them: hashes of crypt(3).
//
// Thread-safety: pure functions. Blocking: some 30 ms of processor time each, as the hash wants.
#pragma once

#include <string>
#include <string_view>

namespace holdfast::server {

constexpr std::size_t kLongestPassword = 511;

// Whether this system's crypt(3) can check a password against it. Its methods without a '$', which
// look like any word, are not taken.
bool is_hash(const std::string& text);

bool matches(const std::string& password, const std::string& hash);

}  // namespace holdfast::server
