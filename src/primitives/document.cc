#include "src/primitives/document.h"

#include <charconv>

#include "holdfast/detail/number.h"
#include "src/session/names.h"

namespace holdfast::primitives {
namespace {

constexpr std::string_view kForm = "1";
// A value that begins with none of these belongs to the program that uses the lock.
constexpr std::string_view kKinds[] = {"barrier", "election", "latch", "once"};

std::string said_of(const std::string& name) { return "lock '" + session::printable(name) + "': "; }

bool is_known(std::string_view kind) {
  for (const std::string_view each : kKinds) {
    if (each == kind) return true;
  }
  return false;
}

}  // namespace

std::string make_document(std::string_view kind, std::string_view body) {
  return std::string(kind) + " " + std::string(kForm) + "\n" + std::string(body);
}

Result<std::optional<std::string>> open_document(std::string_view text, std::string_view kind,
                                                 const std::string& name) {
  if (text.empty()) return std::optional<std::string>();
  const std::size_t line = text.find('\n');
  const std::string_view head = text.substr(0, line);
  const std::size_t space = head.find(' ');
  const std::string_view found = head.substr(0, space);
  if (line == std::string_view::npos || space == std::string_view::npos || !is_known(found)) {
    return Error(Errc::kInvalidArgument,
                 said_of(name) +
                     "the value beside it is a program's own: take another name for the " +
                     std::string(kind));
  }
  if (found != kind) {
    return Error(Errc::kInvalidArgument, said_of(name) + "the name is in use for a " +
                                             std::string(found) + ": take another one for the " +
                                             std::string(kind));
  }
  const std::string_view form = head.substr(space + 1);
  if (form != kForm) {
    return Error(Errc::kVersionMismatch, said_of(name) + "its " + std::string(kind) + " has form " +
                                             session::printable(std::string(form)) +
                                             ", which this version does not know: upgrade");
  }
  return std::optional<std::string>(text.substr(line + 1));
}

Error damaged_document(std::string_view kind, const std::string& name) {
  return {Errc::kCorruptState,
          said_of(name) + "its " + std::string(kind) + " is damaged: look who writes to the store"};
}

void put(std::string& body, std::uint64_t number) { body += std::to_string(number) + " "; }

void put(std::string& body, const Token& token) { body += token.to_string() + " "; }

void put_text(std::string& body, std::string_view text) {
  body += std::to_string(text.size()) + ":";
  body += text;
  body += " ";
}

std::optional<std::string_view> Fields::word() {
  const std::size_t end = rest_.find(' ');
  if (end == std::string_view::npos) return good_ = false, std::nullopt;
  const std::string_view found = rest_.substr(0, end);
  rest_.remove_prefix(end + 1);
  return found;
}

std::optional<std::uint64_t> Fields::number() {
  const auto text = word();
  const auto value = text ? detail::parse_number<std::uint64_t>(*text) : std::nullopt;
  if (!value) good_ = false;
  return value;
}

std::optional<Token> Fields::token() {
  const auto text = word();
  auto token = text ? Token::parse(*text) : std::nullopt;
  if (!token) good_ = false;
  return token;
}

std::optional<std::string> Fields::text() {
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
  const auto digits = static_cast<std::size_t>(end - rest_.data());
  // The length comes out of a store, so it is compared with the rest before anything is copied.
  const bool fits = error == std::errc{} && digits < rest_.size() && rest_[digits] == ':' &&
                    size < rest_.size() - digits - 1 && rest_[digits + 1 + size] == ' ';
  if (!fits) return good_ = false, std::nullopt;
  std::string found(rest_.substr(digits + 1, size));
  rest_.remove_prefix(digits + 1 + size + 1);
  return found;
}

}  // namespace holdfast::primitives
