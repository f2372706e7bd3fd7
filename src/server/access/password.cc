#include "src/server/access/password.h"

#include <crypt.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>

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

namespace {

// The methods that are strong today, as crypt(5) has them. The last part of a hash has `digits`;
// bcrypt's also holds the salt. Behind `cost` stands a number or one sign, between the bounds: a
// cheaper hash is soon guessed, and a dearer one lets a stranger who knows a user's name keep the
// server busy.
struct Method {
  std::string_view begin;
  std::size_t digits;
  std::string_view cost;
  std::string_view least;
  std::string_view most;
};
constexpr std::string_view kRounds = "rounds=";  // Without it: 5,000.
constexpr Method kMethods[] = {{"$y$", 43, "j", "7", "C"},
                               {"$gy$", 43, "j", "7", "C"},
                               {"$7$", 43, "", "A", "E"},
                               {"$6$", 86, kRounds, "5000", "1000000"},
                               {"$5$", 43, kRounds, "5000", "1000000"},
                               {"$2b$", 53, "", "10", "13"},
                               {"$2y$", 53, "", "10", "13"},
                               {"$2a$", 53, "", "10", "13"}};

bool is_at_most(std::string_view one, std::string_view other) {
  return one.size() != other.size() ? one.size() < other.size() : one <= other;
}

bool is_bearable(std::string_view hash, const Method& method) {
  std::string_view cost = hash.substr(method.begin.size());
  if (!cost.starts_with(method.cost)) return method.cost == kRounds;
  cost.remove_prefix(method.cost.size());
  cost = cost.substr(0, method.most.size() == 1 ? 1 : cost.find('$'));
  return is_at_most(method.least, cost) && is_at_most(cost, method.most);
}

bool is_digit(unsigned char c) {
  return (c >= '.' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

}  // namespace

bool is_hash(const std::string& text) {
  const auto* const method = std::find_if(std::begin(kMethods), std::end(kMethods),
                                          [&](auto& each) { return text.starts_with(each.begin); });
  if (method == std::end(kMethods)) return false;
  const std::size_t before = text.rfind('$');
  const std::string_view last = std::string_view(text).substr(before + 1);
  const int verdict = crypt_checksalt(text.c_str());
  return before >= method->begin.size() && last.size() == method->digits &&
         std::all_of(last.begin(), last.end(), is_digit) && is_bearable(text, *method) &&
         verdict != CRYPT_SALT_INVALID && verdict != CRYPT_SALT_METHOD_DISABLED;
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
