// One client's requests to the scripts, in their words.
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

// Whether it is nothing that the scripts could be asked.
bool malformed(const port::AcquireRequest& request);

class Requests {
 public:
  // `client` names a store object on the server. `now`, where it is set, goes instead of the
  // server's time: for tests.
  Requests(std::string client, std::function<machine::Instant()> now)
      : client_(std::move(client)), now_(std::move(now)) {}

  const std::string& client() const { return client_; }
  bool by_server_time() const { return !now_; }

  ScriptCall call(ScriptName name, std::string_view lock,
                  std::initializer_list<std::string_view> args) const;
  ScriptCall acquire(const port::AcquireRequest& request) const;
  // Requests of one client's store, all of them in one step.
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
