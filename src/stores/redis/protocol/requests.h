// Writes one client's requests as calls of the scripts.
//
// Thread-safety: constants; `now` is called on the caller's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "src/machine/types.h"
#include "src/port/store.h"
#include "src/stores/redis/protocol/script_call.h"

namespace holdfast::stores::redis {

// Whether the scripts cannot express this request.
bool malformed(const port::AcquireRequest& request);

class Requests {
 public:
  // `client` names this store object on the server. Tests set `now`, which replaces the server's
  // time.
  Requests(std::string client, std::function<machine::Instant()> now)
      : client_(std::move(client)), now_(std::move(now)) {}

  const std::string& client() const { return client_; }
  bool by_server_time() const { return !now_; }

  ScriptCall call(ScriptName name, std::string_view lock,
                  std::initializer_list<std::string_view> args) const;
  ScriptCall acquire(const port::AcquireRequest& request) const;
  // Acquires all locks in one step, or none.
  ScriptCall acquire_all(const std::vector<port::AcquireRequest>& requests) const;
  ScriptCall end_all(const std::vector<port::AcquisitionRequest>& requests) const;
  // `how`: "release" or "cancel".
  ScriptCall end(std::string_view how, const port::AcquisitionRequest& request) const;
  // A request for items[from] to items[to - 1].
  ScriptCall renew(const std::vector<port::RenewItem>& items, std::size_t from,
                   std::size_t to) const;

 private:
  ScriptClock clock() const { return now_ ? ScriptClock::kArgument : ScriptClock::kServer; }
  void add_test_clock(ScriptCall& made) const;

  const std::string client_;
  const std::function<machine::Instant()> now_;
};

}  // namespace holdfast::stores::redis
