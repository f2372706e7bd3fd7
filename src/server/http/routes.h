// The HTTP port's answers to a request whose sender is known (docs/design/0062-http-port.md).
//
// Guarantee: `done` is called once, within the call or later on the loop, unless the service ends
// before. Thread-safety: the loop only. Blocking: never.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/port/service/shards.h"
#include "src/server/access/account.h"
#include "src/server/front/front.h"
#include "src/server/http/http_codec.h"
#include "src/server/http/http_forwarder.h"
#include "src/server/http/waits.h"
#include "src/server/service.h"

namespace holdfast::server {

// Changes of locks that this server has committed since it began.
struct LockCounts {
  std::uint64_t granted = 0;
  std::uint64_t queued = 0;
  std::uint64_t released = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t expired = 0;  // Holders only.
  std::uint64_t broken = 0;
  std::uint64_t extended = 0;  // Leases that began anew after a crash.

  void add(const machine::Effect& effect);
};

struct HttpShard {
  Service* service = nullptr;  // Null: this server stands by.
  std::string leader{};        // Then: the address of the one that leads; empty: not known.
};

struct HttpScene {
  std::vector<HttpShard> shards = std::vector<HttpShard>(1);
  std::string address;           // This server's main address, as others are told it.
  bool journal_answered = true;  // When this server last asked its shared journal.
  Greeting greeting;
  std::size_t connections = 0;
  std::uint64_t answered[6] = {};  // By the first digit of their status.
  LockCounts locks{};
  HttpWaits* waits = nullptr;
  HttpForwarder* forwarder = nullptr;

  std::uint32_t shard_of(std::string_view lock) const {
    return port::shard_of(lock, static_cast<std::uint32_t>(shards.size()));
  }
  // Whether that server can be asked for this caller. A request that another server has forwarded
  // is not forwarded again.
  bool can_forward(const HttpRequest& request, const std::string& leader) const;
  // How many shards this server leads.
  std::size_t leading() const;
  // The present of those together. nullopt: it leads none.
  std::optional<Service::State> state() const;
  // `present`: state().
  bool journal_answers(const std::optional<Service::State>& present) const;
};

struct HttpCaller {
  AccountPtr account{};
  std::string address{};
  std::shared_ptr<HttpDeparture> departure{};
  std::string connection{};  // Its other end: `address`, or the server that forwards for that one.
};

using Answered = std::function<void(HttpAnswer)>;

inline bool is_read(const HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}
// Paths that tell everybody whether the server works.
bool is_open_to_all(std::string_view target);
void answer_request(const HttpScene& scene, const HttpRequest& request, const HttpCaller& caller,
                    Answered done);
HttpAnswer http_error(unsigned status, std::string_view code, const std::string& message,
                      const std::string& next);
// The message of a restored copy that grants nothing for `left`.
std::string quiet_text(machine::Duration left);
HttpAnswer bad_request(const std::string& message);
HttpAnswer wrong_method(const std::string& allowed);

// --- /v1/server (server_state.cc).
HttpAnswer server_state(const HttpScene& scene);

using HttpQuery = std::map<std::string, std::string>;

// --- The calls for locks, under /v1/locks (lock_calls.cc). `path` is what follows it.
void answer_lock_call(const HttpScene& scene, std::string_view path, const HttpQuery& query,
                      const HttpRequest& request, const HttpCaller& caller, const Answered& done);

// GET /v1/locks (lock_list.cc).
void answer_list(const HttpScene& scene, const HttpQuery& query, const HttpRequest& request,
                 const HttpCaller& caller, const Answered& done);

// The calls for ids, under /v1/ids/. `path` is what follows it.
void answer_id_call(const HttpScene& scene, std::string_view path, const HttpRequest& request,
                    const HttpCaller& caller, const Answered& done);

}  // namespace holdfast::server
