#include "holdfast/fence/http.h"

#include <map>

#include "examples/fence/scene.h"

namespace demo {
namespace {

using holdfast::Lease;
using holdfast::Result;

// A client's library sends these headers and a server's library reads them.
struct Request {
  std::map<std::string, std::string> headers;
  int items = 0;
};

std::optional<std::string> header(const Request& request, const char* name) {
  const auto found = request.headers.find(name);
  if (found == request.headers.end()) return std::nullopt;
  return found->second;
}

// [region: http-server]
holdfast::fence::MemoryRecord record;  // or the guard of the database that is written to
int stock = 10;

holdfast::fence::HttpAnswer put_stock(const Request& request) {
  const holdfast::fence::HttpHeaders headers{.token = header(request, "Holdfast-Token"),
                                             .lock = header(request, "Holdfast-Lock"),
                                             .mode = header(request, "Holdfast-Mode")};
  return holdfast::fence::admit_http(
      headers, "stock", "stock", [&](auto& resource, auto& token, auto& mode) {
        return record.write(resource, token, mode, [&] { stock = request.items; });
      });
}
// [end]

// [region: http-client]
Result<void> write_stock(int items, const Lease& lease) {
  Request request{.headers = {}, .items = items};
  for (const auto& [name, value] :
       holdfast::fence::http_headers(lease.name(), lease.token(), lease.mode())) {
    request.headers[name] = value;
  }
  const auto answer = put_stock(request);
  if (answer.status == 412) return holdfast::Error(holdfast::Errc::kLost, answer.message);
  if (!answer.accepted()) return holdfast::Error(holdfast::Errc::kUnavailable, answer.message);
  return {};
}
// [end]

}  // namespace

int play_http() {
  return play_scene(write_stock, [] { return stock; });
}

}  // namespace demo
