// Passwords as the host's own password files keep them: hashes of crypt(3).
//
// Thread-safety: pure functions. Blocking: some 30 ms of processor time each, as the hash wants.
#pragma once

#include <string>
#include <string_view>

namespace holdfast::server {

constexpr std::size_t kLongestPassword = 511;

bool matches(const std::string& password, const std::string& hash);

}  // namespace holdfast::server
