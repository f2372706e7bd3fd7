#include "src/stores/consul/doctor.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/port/examination.h"
#include "src/stores/consul/transport/errors.h"
#include "src/stores/consul/transport/messages.h"

namespace holdfast::stores::consul {
namespace {

using Json = nlohmann::json;
using port::add;
using port::Findings;

constexpr std::uint64_t kFewConnections = 200;

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

class Examination : public port::Examination, public std::enable_shared_from_this<Examination> {
 public:
  Examination(DoctorAccess access, port::Done<Findings> done)
      : port::Examination(std::move(done)), access_(std::move(access)) {}

  void start() {
    access_.get("/v1/status/leader", [self = shared_from_this()](const Result<HttpReply>& reply) {
      if (!reply) return self->give_up(reply.error());
      if (reply->status != 200) {
        return self->give_up(to_error(*reply, "asking for the leader", /*reads=*/true));
      }
      const bool led = reply->body.find(':') != std::string::npos;
      self->add(
          led ? Severity::kOk : Severity::kProblem, "leader",
          led ? "the servers have a leader" : "the servers have no leader: nothing can be locked",
          led ? "" : "see the servers' logs: a majority of them must run and reach each other");
      self->ask_peers();
    });
  }

 private:
  // Whether the client was closed meanwhile. Then nothing more is sent.
  template <typename T>
  bool over(const Result<T>& answer) const {
    if (answer || answer.error().code() != Errc::kClosed) return false;
    give_up(answer.error());
    return true;
  }

  void ask_peers() {
    access_.get("/v1/status/peers", [self = shared_from_this()](const Result<HttpReply>& reply) {
      if (self->over(reply)) return;
      if (reply && reply->status == 200) judge_peers(reply->body, self->findings_);
      self->ask_agent();
    });
  }

  void ask_agent() {
    access_.get("/v1/agent/self", [self = shared_from_this()](const Result<HttpReply>& reply) {
      if (self->over(reply)) return;
      if (reply && reply->status == 200) {
        judge_agent(reply->body, self->findings_);
      } else {
        self->add(
            Severity::kWarning, "agent",
            "this token may not look at the agent: version and limits are not known",
            "give it agent_prefix \"\" { policy = \"read\" } so that the doctor can read them");
      }
      self->try_rights();
    });
  }

  void try_rights() {
    access_.open_session([self = shared_from_this()](const Result<std::string>& id) {
      if (self->over(id)) return;
      if (id) return self->try_key(*id);
      self->add_failed_trial("session", id.error(), "consul.md");
      self->conclude();
    });
  }

  void try_key(const std::string& id) {
    const std::string key = access_.keys.locks("") + "doctor-" + id;
    Transaction all;
    all.check_not_exists(key).lock(key, "", id).get(key).erase(key);
    access_.transact(all.body(), [self = shared_from_this()](const Result<HttpReply>& reply) {
      if (self->over(reply)) return;
      auto answer = reply ? read_transaction(*reply, "trying a lock", /*reads=*/false)
                          : Result<TransactionReply>(reply.error());
      if (answer && answer->done) {
        self->add(Severity::kOk, "rights", "this token may do what locks need");
      } else if (answer) {
        self->add_failed_trial("rights", Error(Errc::kPermissionDenied, answer->why), "consul.md");
      } else {
        self->add_failed_trial("rights", answer.error(), "consul.md");
      }
      self->conclude();
    });
  }

  void conclude() {
    const ConsulAddress& address = access_.address;
    if (address.hosts.size() == 1) {
      add(Severity::kOk, "agents", "one agent: while it is down nothing can be locked");
    } else {
      add(Severity::kOk, "agents",
          std::to_string(address.hosts.size()) + " agents: another is asked when one fails");
    }
    if (!address.tls) {
      add_not_encrypted("not encrypted, and the token with it", "consuls://");
    }
    port::check_clock_rate(findings_);
    finish();
  }

  const DoctorAccess access_;
};

}  // namespace

void judge_agent(const std::string& self, Findings& findings) {
  const Json json = Json::parse(self, nullptr, /*allow_exceptions=*/false);
  const Json* const config = member(json, "Config");
  const Json* const version = config == nullptr ? nullptr : member(*config, "Version");
  if (version == nullptr || !version->is_string()) {
    add(findings, Severity::kWarning, "version", "the agent does not say which version it is");
    return;
  }
  const auto text = version->get<std::string>();
  int major = 0;
  int minor = 0;
  const bool known = std::sscanf(text.c_str(), "%d.%d", &major, &minor) == 2;
  if (!known || std::pair(major, minor) < std::pair(1, 8)) {
    add(findings, Severity::kWarning, "version",
        "Consul " + text.substr(0, 40) + ", which Holdfast is not tested with",
        "use Consul 1.8 or later");
  } else {
    add(findings, Severity::kOk, "version", "Consul " + text.substr(0, 40));
  }
  const Json* const debug = member(json, "DebugConfig");
  const Json* const limit = debug == nullptr ? nullptr : member(*debug, "HTTPMaxConnsPerClient");
  if (limit == nullptr || !limit->is_number_unsigned()) return;
  const auto most = limit->get<std::uint64_t>();
  if (most != 0 && most < kFewConnections) {
    add(findings, Severity::kWarning, "connections",
        "the agent takes " + std::to_string(most) +
            " connections from one address; a client "
            "that waits for many locks needs up to 80",
        "raise limits { http_max_conns_per_client } in the agent's configuration");
  }
}

void judge_peers(const std::string& peers, Findings& findings) {
  const Json json = Json::parse(peers, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return;
  const std::size_t servers = json.size();
  const std::string count = std::to_string(servers);
  if (servers == 1) {
    add(findings, Severity::kWarning, "servers",
        "one server: while it is down nothing can be locked, and its disk is the only copy",
        "run three or five servers");
  } else if (servers % 2 == 0) {
    add(findings, Severity::kWarning, "servers",
        count + " servers survive no more failures than " + std::to_string(servers - 1) + " do",
        "run an odd number of servers");
  } else {
    add(findings, Severity::kOk, "servers",
        count + " servers: " + std::to_string(servers / 2) + " of them may fail");
  }
}

contend::Servers servers_behind(const HttpReply& self, const HttpReply& peers) {
  constexpr std::size_t kSeveral = 3;
  const Json list = Json::parse(peers.status == 200 ? peers.body : "", nullptr, false);
  const std::size_t servers = list.is_array() ? list.size() : 0;
  if (servers >= kSeveral) return contend::Servers::on_disk(servers);
  const Json agent = Json::parse(self.status == 200 ? self.body : "", nullptr, false);
  const Json* const config = member(agent, "Config");
  const Json* const debug = member(agent, "DebugConfig");
  const Json* const serves = config == nullptr ? nullptr : member(*config, "Server");
  const Json* const dev = debug == nullptr ? nullptr : member(*debug, "DevMode");
  const Json* const folder = debug == nullptr ? nullptr : member(*debug, "DataDir");
  contend::Servers unknown;
  if (servers == 0) return unknown;
  unknown.failover_note = contend::Servers::on_disk(servers).failover_note;
  if (serves == nullptr || !serves->is_boolean()) {
    unknown.restart_note =
        "this token may not look at the agent (agent_prefix \"\" { policy = \"read\" }), so it is "
        "not known whether anything is on a disk";
  } else if (!serves->get<bool>()) {
    unknown.restart_note =
        "this agent is a client: it does not tell whether its server keeps anything on a disk; ask "
        "the server's own agent";
  } else if ((dev != nullptr && dev->is_boolean() && dev->get<bool>()) || folder == nullptr ||
             !folder->is_string() || folder->get<std::string>().empty()) {
    unknown.restart_note =
        "Consul runs in dev mode, or without a data folder: nothing is on a disk";
  } else {
    return contend::Servers::on_disk(servers);
  }
  return unknown;
}

void examine(DoctorAccess access, port::Done<Findings> done) {
  std::make_shared<Examination>(std::move(access), std::move(done))->start();
}

}  // namespace holdfast::stores::consul
