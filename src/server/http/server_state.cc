// GET /v1/server: the state of this server, for operators and the console.
#include <algorithm>
#include <chrono>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "src/base/clock.h"
#include "src/server/http/routes.h"

namespace holdfast::server {

HttpAnswer server_state(const HttpScene& scene) {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  const auto up = base::BootClock::now() - scene.greeting.started;
  const bool alone = scene.shards.size() == 1;
  const auto leader_of = [&](const HttpShard& shard) {
    return shard.service != nullptr ? scene.address : shard.leader;
  };
  const auto state = scene.state();
  nlohmann::json out = {
      {"version", scene.greeting.version},
      {"journal", scene.greeting.journal},
      {"journal_place", scene.greeting.place},
      {"address", scene.address},
      {"leads", state.has_value()},
      {"leader", alone ? leader_of(scene.shards.front()) : std::string()},
      {"journal_answers", scene.journal_answers(state)},
      {"shards", scene.shards.size()},
      {"leading", scene.leading()},
      {"uptime_ms", std::max<std::int64_t>(duration_cast<milliseconds>(up).count(), 0)}};
  if (!alone) {
    for (const HttpShard& each : scene.shards) out["shard_leaders"].push_back(leader_of(each));
  }
  // A server that stands by has no locks, and does not know the journal's state.
  if (state) {
    out["journal_full"] = state->full;
    out["quiet_s"] = std::chrono::ceil<std::chrono::seconds>(state->quiet).count();
    out["uncommitted_bytes"] = state->uncommitted;
    out["holders"] = state->holders;
    out["waiters"] = state->waiters;
  }
  // The place of a journal is a path, which may be no UTF-8.
  return {.body = out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

}  // namespace holdfast::server
