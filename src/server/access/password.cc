#include "src/server/access/password.h"

#include <crypt.h>

#include <memory>

#include "holdfast/server_tools.h"

namespace holdfast {

Result<std::string> hash_password(const std::string& password) {
  if (password.empty() || password.size() > server::kLongestPassword ||
      password.find('\0') != password.npos) {
    return Error(Errc::kInvalidArgument, "a password has 1 to 511 bytes, and no byte 0");
  }
  // The system chooses the method and its cost.
  char setting[CRYPT_GENSALT_OUTPUT_SIZE];
  const auto data = std::make_unique<crypt_data>();
  const char* const made =
      crypt_gensalt_rn(nullptr, 0, nullptr, 0, setting, sizeof setting) == nullptr
          ? nullptr
          : crypt_r(password.c_str(), setting, data.get());
  if (made == nullptr || *made == '*') {
    return Error(Errc::kUnavailable, "crypt(3) of this system cannot hash a password");
  }
  return std::string(made);
}

}  // namespace holdfast

namespace holdfast::server {

bool is_hash(const std::string& text) {
  const int verdict = text.starts_with('$') ? crypt_checksalt(text.c_str()) : CRYPT_SALT_INVALID;
  return verdict != CRYPT_SALT_INVALID && verdict != CRYPT_SALT_METHOD_DISABLED &&
         text.find('$', 1) != text.npos;
}

bool matches(const std::string& password, const std::string& hash) {
  if (password.size() > kLongestPassword || password.find('\0') != password.npos) return false;
  const auto data = std::make_unique<crypt_data>();
  const char* const made = crypt_r(password.c_str(), hash.c_str(), data.get());
  // crypt_r() answers with a '*' at the beginning where it cannot hash.
  if (made == nullptr || *made == '*') return false;
  // The time tells nothing about where they differ.
  const std::string_view text(made);
  if (text.size() != hash.size()) return false;
  unsigned char differs = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    differs = static_cast<unsigned char>(differs | (text[i] ^ hash[i]));
  }
  return differs == 0;
}

}  // namespace holdfast::server
