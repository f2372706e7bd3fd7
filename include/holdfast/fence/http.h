// A fencing token in the headers of an HTTP request, and what a server does with it. No HTTP
// library is needed: it takes the headers' values and gives a status.
//
//   Holdfast-Token: 0000000000.00000000000000000042    the token, at its fixed width
//   Holdfast-Lock: orders/42                            the lock's name; bytes other than printable
//                                                       ASCII, and %, percent-encoded
//   Holdfast-Mode: exclusive                            or shared; exclusive when left out
//
//   status   when                                            the client's next step
//   200      accepted                                        -
//   400      a header cannot be read                         mend the request
//   409      the token is one of another lock                take the right lock
//   412      the token is old                                stop: the lock was lost
//   428      there is no token                               send one
//   500      the record is damaged                           (the server's operator:) look at it
//   501      the lock is one of permits                      fencing cannot help: use a mutex
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
// ends. Not guaranteed: who sent it. A token is not a secret; authenticate the caller as ever.
// Check and write must be one step: let `admit` run in the transaction that then writes.
//
// Thread-safety: pure functions, but for what `admit` does. Errors: in the answer.
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

// `lock`: the name that the token must be of; empty: whichever the client says, or none.
HOLDFAST_EXPORT HttpAnswer admit_http(const HttpHeaders& headers, const std::string& resource,
                                      std::string_view lock, const Admit& admit);

// The headers that a client sends, by name and value. Permits are sent unchanged, and answered with
// 501.
HOLDFAST_EXPORT std::vector<std::pair<std::string, std::string>> http_headers(
    std::string_view lock, const Token& token, const Mode& mode = Mode::exclusive());

}  // namespace holdfast::fence
