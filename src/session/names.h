// The rules for names of locks.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "holdfast/result.h"

namespace holdfast::session {

// UTF-8, 1 to 256 bytes, no control characters, no `..` segment. Errors: kInvalidArgument, with
// what is wrong and at which byte.
Result<void> check_name(std::string_view name);

// Checks the name of a lock to look at or to break: also that of an InnerName, as lists show it.
Result<void> check_shown_name(std::string_view name);

// The name of a lock that a primitive keeps for itself beside another one. No user can give such a
// name: it has a `..` segment.
class InnerName {
 public:
  // Errors: kInvalidArgument: check_name(name); both together have more than 256 bytes.
  static Result<InnerName> make(std::string_view name, std::string_view purpose);
  const std::string& text() const { return text_; }

 private:
  explicit InnerName(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

// "lock 'orders'", for messages.
std::string lock_named(std::string_view name);

// `text` with everything unprintable, and what changes the direction of writing, escaped: for
// messages.
std::string printable(std::string_view text);

}  // namespace holdfast::session
