#include "holdfast/fence/fence.h"

namespace holdfast::fence {
namespace {

Error refused(const Token& recorded, const Token& token, const char* is) {
  return {Errc::kLost, "the token " + token.to_string() + " is refused: it " + is + " " +
                           recorded.to_string() +
                           ", which was shown here before, so another holder has had the lock "
                           "since. Stop, and undo what you have begun"};
}

}  // namespace

Result<Token> admit(const Token& recorded, const Token& token, const Mode& mode) {
  if (mode.kind() == Mode::Kind::kPermits) {
    return Error(
        Errc::kUnsupported,
        "permits cannot be fenced: several of their holders are valid at once. Protect what "
        "must not be written late by a mutex of its own");
  }
  if (token == Token{}) {
    return Error(Errc::kInvalidArgument,
                 "there is no token: show the one of your lease (Lease::token, HOLDFAST_TOKEN)");
  }
  if (mode.kind() == Mode::Kind::kShared) {
    if (token > recorded) return recorded;
    if (token < recorded) return refused(recorded, token, "is below");
    return Error(
        Errc::kLost,
        "the token " + token.to_string() +
            " is refused as a shared one: it equals the recorded exclusive token, and shared "
            "ones come after it. A lease that was downgraded shows its token as exclusive");
  }
  if (token < recorded) return refused(recorded, token, "is below");
  return token;
}

std::optional<Token> read_token(std::string_view text) {
  const auto token = Token::parse(text);
  if (!token || token->to_string() != text) return std::nullopt;
  return token;
}

Result<void> check_resource(std::string_view resource) {
  constexpr std::size_t kLongest = 256;
  const auto bad = [](const char* why) {
    return Error(Errc::kInvalidArgument, std::string("the name of the resource ") + why +
                                             ": use 1 to 256 bytes without control characters");
  };
  if (resource.empty()) return bad("is empty");
  if (resource.size() > kLongest) return bad("is too long");
  for (const char each : resource) {
    const auto byte = static_cast<unsigned char>(each);
    if (byte < 0x20 || byte == 0x7f) return bad("has a control character");
  }
  return {};
}

Result<void> MemoryRecord::write(const std::string& resource, const Token& token, const Mode& mode,
                                 const std::function<void()>& body) {
  if (auto checked = check_resource(resource); !checked) return checked;
  const std::lock_guard lock(mutex_);
  const auto found = tokens_.find(resource);
  const Token before = found == tokens_.end() ? Token{} : found->second;
  const auto after = fence::admit(before, token, mode);
  if (!after) return after.error();
  if (*after != before) tokens_[resource] = *after;
  body();
  return {};
}

Result<void> MemoryRecord::admit(const std::string& resource, const Token& token,
                                 const Mode& mode) {
  return write(resource, token, mode, [] {});
}

Token MemoryRecord::recorded(const std::string& resource) const {
  const std::lock_guard lock(mutex_);
  const auto found = tokens_.find(resource);
  return found == tokens_.end() ? Token{} : found->second;
}

}  // namespace holdfast::fence
