// A resource that checks fencing tokens: a file with the highest token seen and a number.
//
// Guarantee: a token below the highest one seen changes nothing, also when its process was killed
// or stopped at any instant. flock(2) makes check and write one step; the lock under test is not
// trusted for that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace holdfast::faults {

struct Guarded {
  std::string highest;  // Token::to_string(), which compares as text.
  std::int64_t value = 0;
};

class GuardedFile {
 public:
  explicit GuardedFile(std::string path) : path_(std::move(path)) {}

  // Shows `token` and reads. nullopt: refused.
  std::optional<Guarded> read(const std::string& token) const;
  // nullopt: written; otherwise what stands there, and nothing was changed.
  std::optional<Guarded> write(const std::string& token, std::int64_t value) const;

 private:
  std::optional<Guarded> visit(const std::string& token, const std::int64_t* value,
                               Guarded& before) const;

  std::string path_;
};

}  // namespace holdfast::faults
