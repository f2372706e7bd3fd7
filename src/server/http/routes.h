// The HTTP port's answers to a request whose sender is known (docs/design/0062-http-port.md).
//
// Guarantee: `done` is called once, within the call or later on the loop, unless the service ends
// before. Thread-safety: the loop only. Blocking: never.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "src/server/access/account.h"
#include "src/server/front/front.h"
#include "src/server/http/http_codec.h"
#include "src/server/service.h"

namespace holdfast::server {

struct HttpScene {
  Service* service = nullptr;  // Null: this server stands by.
  std::string leader;          // The address of the one that leads; empty: not known.
  Greeting greeting;
  std::size_t connections = 0;
  std::uint64_t answered[6] = {};  // By the first digit of their status.
};

using Answered = std::function<void(HttpAnswer)>;

// Those that tell whether the server works, to everybody.
bool is_open_to_all(std::string_view target);
void answer_request(const HttpScene& scene, const HttpRequest& request, const AccountPtr& account,
                    const std::string& address, Answered done);
HttpAnswer http_error(unsigned status, std::string_view code, const std::string& message,
                      const std::string& next);
HttpAnswer wrong_method(const std::string& allowed);

// --- The calls for locks, under /v1/locks (lock_calls.cc). `path` is what follows it.
void answer_lock_call(const HttpScene& scene, std::string_view path, std::string_view query,
                      const HttpRequest& request, const AccountPtr& account,
                      const std::string& address, const Answered& done);

}  // namespace holdfast::server
