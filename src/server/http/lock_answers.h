// The answers to the calls for locks, as JSON (docs/guide/http.md).
//
// Thread-safety: pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "src/server/http/routes.h"

namespace holdfast::server {

inline std::int64_t millis(machine::Duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

HttpAnswer as_json(unsigned status, const nlohmann::json& body);
HttpAnswer failed(const Error& error);
// `why`: the leader could not be asked; empty: it was not tried.
HttpAnswer standing_by(const std::string& leader, const std::string& why = {});
// Ids are never shown: who has one can end that hold.
nlohmann::json sight_json(const LockSight& sight, const AccountPtr& account);

}  // namespace holdfast::server
