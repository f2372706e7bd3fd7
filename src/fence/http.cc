#include "holdfast/fence/http.h"

#include "holdfast/detail/percent.h"

namespace holdfast::fence {
namespace {

bool stays_in_header(char c) { return detail::is_visible(c) && !detail::is_one_of(c, "%,;\""); }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const auto begin = text.find_first_not_of(kBlank);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::optional<Mode> read_mode(const std::optional<std::string>& text) {
  if (!text) return Mode::exclusive();
  const std::string_view word = trimmed(*text);
  if (word == "exclusive") return Mode::exclusive();
  if (word == "shared") return Mode::shared();
  // The numbers do not matter, since no permits can be fenced.
  if (word == "permits") return Mode::permits(1, 1);
  return std::nullopt;
}

int status_of(Errc code) {
  switch (code) {
    case Errc::kLost:
    case Errc::kBroken: return 412;
    case Errc::kUnsupported: return 501;
    case Errc::kInvalidArgument: return 400;
    case Errc::kCorruptState:
    case Errc::kVersionMismatch:
    case Errc::kPermissionDenied:
    case Errc::kClosed: return 500;
    case Errc::kTimedOut:
    case Errc::kCancelled:
    case Errc::kUnavailable:
    case Errc::kOutcomeUnknown:
    case Errc::kWouldDeadlock:
    case Errc::kQueueFull:
    case Errc::kStoreInUse: return 503;
  }
  return 500;
}

// An error's sentence may hold text of a database: one line of ASCII for a header or a body.
HttpAnswer answer(int status, std::string_view message) {
  HttpAnswer out;
  out.status = status;
  for (const char each : message) {
    const auto byte = static_cast<unsigned char>(each);
    out.message += byte >= 0x20 && byte < 0x7f ? each : '?';
  }
  return out;
}

}  // namespace

HttpAnswer admit_http(const HttpHeaders& headers, const std::string& resource,
                      std::string_view lock, const Admit& admit) {
  if (!headers.token) {
    return answer(428, "Holdfast-Token is missing: send the token of the lease");
  }
  const auto token = read_token(trimmed(*headers.token));
  if (!token) {
    return answer(400, "Holdfast-Token is not one token of ten digits, a point and twenty digits");
  }
  const auto mode = read_mode(headers.mode);
  if (!mode) return answer(400, "Holdfast-Mode is neither exclusive nor shared");
  if (!lock.empty() || headers.lock) {
    const auto name =
        detail::percent_decode(trimmed(headers.lock.value_or("")), detail::is_visible);
    if (!name) return answer(400, "Holdfast-Lock is not percent-encoded");
    if (!lock.empty() && *name != lock) {
      return answer(409, "the token must be one of the lock " + std::string(lock) +
                             ": Holdfast-Lock names another, or none");
    }
  }
  const auto admitted = admit(resource, *token, *mode);
  if (!admitted) return answer(status_of(admitted.error().code()), admitted.error().message());
  return answer(200, "accepted");
}

std::vector<std::pair<std::string, std::string>> http_headers(std::string_view lock,
                                                              const Token& token,
                                                              const Mode& mode) {
  std::string word = "exclusive";
  if (mode.kind() == Mode::Kind::kShared) word = "shared";
  if (mode.kind() == Mode::Kind::kPermits) word = "permits";
  return {{"Holdfast-Token", token.to_string()},
          {"Holdfast-Lock", detail::percent_encode(lock, stays_in_header)},
          {"Holdfast-Mode", word}};
}

}  // namespace holdfast::fence
