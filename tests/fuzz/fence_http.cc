// The headers of a request, three lines, as anybody may send them; behind them the name of the lock
// that is asked for.

#include "holdfast/fence/http.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::fence_http {

// Empty: there is no such header.
std::optional<std::string> header(Input& input) {
  const std::string_view line = input.line();
  return line.empty() ? std::nullopt : std::optional(std::string(line));
}

void run(std::string_view bytes) {
  Input input(bytes);
  fence::HttpHeaders headers;
  headers.token = header(input);
  headers.lock = header(input);
  headers.mode = header(input);
  const std::string lock(input.rest());
  std::optional<Token> admitted;
  const auto answer =
      fence::admit_http(headers, "stock", lock,
                        [&](const std::string&, const Token& token, const Mode&) -> Result<void> {
                          admitted = token;
                          return {};
                        });
  demand(answer.accepted() == admitted.has_value(), "who is accepted was asked about");
  for (const char each : answer.message) {
    demand(each >= 0x20 && each < 0x7f, "a message is one line of ASCII");
  }
  if (admitted) {
    demand(headers.token->find(admitted->to_string()) != std::string::npos, "it is the one sent");
  }
  if (lock.empty()) return;
  for (const auto& [name, value] : fence::http_headers(lock, Token{0, 1})) {
    demand(value.find_first_of("\r\n ") == std::string::npos, "a header's value is one word");
    if (name == "Holdfast-Token") headers.token = value;
    if (name == "Holdfast-Lock") headers.lock = value;
    if (name == "Holdfast-Mode") headers.mode = value;
  }
  const auto sent =
      fence::admit_http(headers, "stock", lock, [](auto&...) -> Result<void> { return {}; });
  demand(sent.accepted(), "what a client sends is what a server reads");
}

}  // namespace holdfast::fuzz::fence_http

HOLDFAST_FUZZ_TARGET(fence_http)
