// How values of the public API are written, and what Result::value() throws.
#include <ostream>
#include <string>
#include <utility>

#include "holdfast/errc.h"
#include "holdfast/mode.h"
#include "holdfast/result.h"
#include "holdfast/token.h"

namespace holdfast {

std::ostream& operator<<(std::ostream& out, const Error& error) {
  return out << errc_name(error.code()) << ": " << error.message();
}

std::ostream& operator<<(std::ostream& out, const Token& token) { return out << token.to_string(); }

std::string Mode::to_string() const {
  switch (kind_) {
    case Kind::kExclusive: return "exclusive";
    case Kind::kShared: return "shared";
    case Kind::kPermits:
      return std::to_string(count_) + " of " + std::to_string(capacity_) + " permits";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& out, const Mode& mode) { return out << mode.to_string(); }

BadResultAccess::BadResultAccess(Error error) : error_(std::move(error)) {}
BadResultAccess::~BadResultAccess() = default;

namespace detail {
void throw_bad_access(Error error) { throw BadResultAccess(std::move(error)); }
}  // namespace detail

}  // namespace holdfast
