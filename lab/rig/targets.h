// The names of the targets of faults (History::targets), fixed before a run starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/scenario/topology.h"

namespace holdfast::lab {

// 0 is the host. 1 to n are the clients by slot; then come their links to the store; then the
// servers, a replica last; then their members.
inline constexpr std::uint32_t kHost = 0;
inline std::uint32_t client_target(std::uint32_t slot) { return slot; }
inline std::uint32_t link_target(const Scenario& scenario, std::uint32_t slot) {
  return static_cast<std::uint32_t>(scenario.clients.processes) + slot;
}
inline std::uint32_t server_target(const Scenario& scenario, std::uint32_t node = 1) {
  return 2 * static_cast<std::uint32_t>(scenario.clients.processes) + node;
}
inline std::uint32_t member_target(const Scenario& scenario, std::uint32_t node) {
  const auto nodes = static_cast<std::uint32_t>(nodes_of(scenario));
  return server_target(scenario, nodes + (scenario.store.replica ? 1 : 0) + node);
}

inline std::vector<std::string> target_names(const Scenario& scenario) {
  const std::int64_t clients = scenario.clients.processes;
  const std::int64_t nodes = nodes_of(scenario);
  const auto numbered = [](const std::string& what, std::int64_t number) {
    return what + " " + std::to_string(number);
  };
  std::vector<std::string> names = {"host"};
  for (std::int64_t i = 1; i <= clients; ++i) names.push_back(numbered("client", i));
  for (std::int64_t i = 1; i <= clients; ++i) names.push_back(numbered("link of client", i));
  for (std::int64_t i = 1; i <= nodes; ++i) names.push_back(numbered("server", i));
  if (nodes == 0) names.emplace_back("store");
  if (scenario.store.replica) names.push_back(numbered("server", nodes + 1));
  const bool members = scenario.topology != nullptr && scenario.topology->member;
  for (std::int64_t i = 1; members && i <= nodes; ++i) names.push_back(numbered("member", i));
  return names;
}

}  // namespace holdfast::lab
