// A fencing token in the headers of an HTTP request, and the server's check of it. It needs no HTTP
// library: it takes the headers' values and gives a status.
//
//   Holdfast-Token: 0000000000.00000000000000000042    the token, at its fixed width
//   Holdfast-Lock: orders/42                            the lock's name; bytes other than printable
//                                                       ASCII, and %, percent-encoded
//   Holdfast-Mode: exclusive                            or shared; exclusive when left out
//
//   status   when                                            the client's next step
//   200      accepted                                        -
//   400      a header cannot be read                         fix the request
//   409      the token belongs to another lock               take the right lock
//   412      the token is old                                stop: the lock was lost
//   428      there is no token                               send one
//   500      the record is damaged                           the server's operator examines it
//   501      the lock is a permits lock                      fencing cannot help: use a mutex
//   503      the record cannot be reached                    retry
//
// Example (examples/fence/http.cc#http-server):
//   holdfast::fence::MemoryRecord record;  // or the guard of the database that is written to
//   int stock = 10;
//
//   holdfast::fence::HttpAnswer put_stock(const Request& request) {
//     const holdfast::fence::HttpHeaders headers{.token = header(request, "Holdfast-Token"),
//                                                .lock = header(request, "Holdfast-Lock"),
//                                                .mode = header(request, "Holdfast-Mode")};
//     return holdfast::fence::admit_http(
//         headers, "stock", "stock", [&](auto& resource, auto& token, auto& mode) {
//           return record.write(resource, token, mode, [&] { stock = request.items; });
//         });
//   }
//
// Guarantee: 200 only when `admit` has accepted this very token. `message` is ASCII without line
// ends. Not guaranteed: who sent it. A token is not a secret, so authenticate the caller as usual.
// Check and write must be one step: let `admit` run in the transaction that then writes.
//
// Thread-safety: pure functions, except for the effects of `admit`. Errors: in the answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/fence/fence.h"

namespace holdfast::fence {

// The headers' values as they came; nullopt: there was no such header.
struct HttpHeaders {
  std::optional<std::string> token{};
  std::optional<std::string> lock{};
  std::optional<std::string> mode{};
};

struct HttpAnswer {
  int status = 200;
  std::string message{};

  bool accepted() const { return status == 200; }
};

// `lock`: the lock that the token must belong to; empty: any lock that the client names, or none.
HOLDFAST_EXPORT HttpAnswer admit_http(const HttpHeaders& headers, const std::string& resource,
                                      std::string_view lock, const Admit& admit);

// The headers that a client sends, by name and value. A permits mode is sent unchanged; the server
// answers it with 501.
HOLDFAST_EXPORT std::vector<std::pair<std::string, std::string>> http_headers(
    std::string_view lock, const Token& token, const Mode& mode = Mode::exclusive());

}  // namespace holdfast::fence
