// The document that a primitive keeps in a lock's value: a line that names its kind, and a body.
//
//   "latch 1\n<body>"
//
// Guarantee: a document of another kind or a later form is refused by name, never misread.
// Thread-safety: pure functions. Errors: kInvalidArgument (the name is in use as something else),
// kVersionMismatch, kCorruptState.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/result.h"
#include "holdfast/token.h"

namespace holdfast::primitives {

std::string make_document(std::string_view kind, std::string_view body);

// The body; nullopt: there is no document. `name`: of the lock, for messages.
Result<std::optional<std::string>> open_document(std::string_view text, std::string_view kind,
                                                 const std::string& name);

Error damaged_document(std::string_view kind, const std::string& name);

// --- Fields of a body, each behind the last, with a space after it.

void put(std::string& body, std::uint64_t number);
void put(std::string& body, const Token& token);
void put_text(std::string& body, std::string_view text);  // Any bytes, with their length in front.

class Fields {
 public:
  explicit Fields(std::string_view body) : rest_(body) {}
  // nullopt: there is no such field here; good() is false from then on.
  std::optional<std::uint64_t> number();
  std::optional<Token> token();
  std::optional<std::string> text();
  bool at_end() const { return rest_.empty(); }
  bool good() const { return good_; }

 private:
  std::optional<std::string_view> word();
  std::string_view rest_;
  bool good_ = true;
};

}  // namespace holdfast::primitives
