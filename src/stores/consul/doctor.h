// Examines a running Consul: version, servers, limits, permissions.
//
// Thread-safety: the loop only. Errors: kUnavailable, kPermissionDenied (nothing could be asked).
// Not guaranteed: that unexamined parts are good; a finding names them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "holdfast/guarantees.h"
#include "src/contend/servers.h"
#include "src/port/store.h"
#include "src/stores/consul/keys.h"
#include "src/stores/consul/transport/http.h"
#include "src/stores/consul/url.h"

namespace holdfast::stores::consul {

// The doctor's requests; each answers once.
struct DoctorAccess {
  std::function<void(std::string target, std::function<void(Result<HttpReply>)>)> get;
  std::function<void(std::string body, std::function<void(Result<HttpReply>)>)> transact;
  std::function<void(std::function<void(Result<std::string>)>)> open_session;
  ConsulAddress address;
  Keys keys;
};

void examine(DoctorAccess access, port::Done<std::vector<Finding>> done);

// The servers' own description in /v1/agent/self and /v1/status/peers, as far as they answered.
// Three servers or more cannot be in dev mode, which makes each agent a cluster of its own.
contend::Servers servers_behind(const HttpReply& self, const HttpReply& peers);

// The parts for tests: they judge the answers of /v1/agent/self and /v1/status/peers.
void judge_agent(const std::string& self, std::vector<Finding>& findings);
void judge_peers(const std::string& peers, std::vector<Finding>& findings);

}  // namespace holdfast::stores::consul
