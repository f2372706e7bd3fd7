// The names of what faults happen to: History::targets of a run, fixed before its start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/scenario/scenario.h"

namespace holdfast::lab {

// 0: the host. 1 to n: the clients by slot; then their ways to the store; then two servers.
inline constexpr std::uint32_t kHost = 0;
inline std::uint32_t client_target(std::uint32_t slot) { return slot; }
inline std::uint32_t link_target(const Scenario& scenario, std::uint32_t slot) {
  return static_cast<std::uint32_t>(scenario.clients.processes) + slot;
}
inline std::uint32_t server_target(const Scenario& scenario, std::uint32_t server = 1) {
  return 2 * static_cast<std::uint32_t>(scenario.clients.processes) + server;
}

inline std::vector<std::string> target_names(const Scenario& scenario) {
  const std::int64_t clients = scenario.clients.processes;
  std::vector<std::string> names = {"host"};
  for (std::int64_t i = 1; i <= clients; ++i) names.push_back("client " + std::to_string(i));
  for (std::int64_t i = 1; i <= clients; ++i)
    names.push_back("link of client " + std::to_string(i));
  names.emplace_back(scenario.store.kind == "redis" ? "server 1" : "store");
  if (scenario.store.replica) names.emplace_back("server 2");
  return names;
}

}  // namespace holdfast::lab
