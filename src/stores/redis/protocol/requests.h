// Writes one client's requests as calls of the scripts.
//
// Thread-safety: constants; `now` is called on the caller's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/machine/types.h"
#include "src/port/store.h"
#include "src/stores/redis/protocol/script_call.h"
#include "src/stores/redis/protocol/slot.h"

namespace holdfast::stores::redis {

// Whether the scripts cannot express this request.
bool malformed(const port::AcquireRequest& request);

class Requests {
 public:
  // `client` names this store object on the server. Tests set `now`, which replaces the server's
  // time.
  Requests(std::string client, std::function<machine::Instant()> now,
           ScriptHost place = ScriptHost::kServer);

  const std::string& client() const { return client_; }
  bool by_server_time() const { return !now_; }
  // 0 outside a cluster.
  std::uint16_t slot_of(std::string_view lock) const;
  // On which this client hears of grants: one for each slot of a cluster.
  std::string channel_in(std::uint16_t slot) const;

  ScriptCall call(ScriptName name, std::string_view lock,
                  std::initializer_list<std::string_view> args) const;
  ScriptCall acquire(const port::AcquireRequest& request) const;
  // Acquires all locks in one step, or none.
  ScriptCall acquire_all(const std::vector<port::AcquireRequest>& requests) const;
  ScriptCall end_all(const std::vector<port::AcquisitionRequest>& requests) const;
  // `how`: "release" or "cancel".
  ScriptCall end(std::string_view how, const port::AcquisitionRequest& request) const;
  // A request for items[from] to items[to - 1], which are in one slot.
  ScriptCall renew(const std::vector<port::RenewItem>& items, std::size_t from,
                   std::size_t to) const;

 private:
  ScriptClock clock() const { return now_ ? ScriptClock::kArgument : ScriptClock::kServer; }
  ScriptCall begin(ScriptName name) const { return ScriptCall(name, clock(), place_); }
  // `lock`: one of those that it is about.
  void finish(ScriptCall& made, std::string_view lock) const;

  const std::string client_;
  const std::function<machine::Instant()> now_;
  const ScriptHost place_;
  const std::optional<SlotTags> tags_;  // In a cluster.
};

}  // namespace holdfast::stores::redis
