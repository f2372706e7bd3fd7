#include "src/stores/redis/doctor/cluster_doctor.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "src/base/clock.h"
#include "src/port/examination.h"
#include "src/stores/redis/doctor/facts.h"

namespace holdfast::stores::redis {
namespace {

using std::chrono::seconds;

constexpr char kRightsToSeeMore[] = "run the doctor as a user with +info +config|get +cluster|info";

struct NodeReport {
  std::string address;
  Facts facts;
  std::string away;       // Why it did not answer; empty if it did.
  std::string no_config;  // Why its settings cannot be seen.
  std::optional<seconds> clock_ahead;

  std::string_view get(std::string_view name) const { return fact(facts, name); }
  bool is_primary() const { return get("role") == "master"; }
};

// The finding that one node deserves for one topic.
struct Verdict {
  Severity severity = Severity::kOk;
  std::string what;
  std::string advice;

  friend bool operator==(const Verdict&, const Verdict&) = default;
};
using Judge = std::optional<Verdict> (*)(const NodeReport&);

std::optional<Verdict> judge_eviction(const NodeReport& node) {
  std::string_view policy = node.get("config maxmemory-policy");
  if (policy.empty()) policy = node.get("maxmemory_policy");
  if (policy.empty()) {
    return Verdict{Severity::kProblem,
                   "whether locks that are held are evicted cannot be seen: " + node.no_config,
                   kRightsToSeeMore};
  }
  if (policy == "noeviction") {
    return Verdict{Severity::kOk, "maxmemory-policy is noeviction: no lock is ever evicted", {}};
  }
  return Verdict{Severity::kProblem,
                 "maxmemory-policy is " + std::string(policy) +
                     ": a lock that is held can be evicted; a part of one that is missing makes it "
                     "unavailable until its keys are deleted",
                 "set maxmemory-policy noeviction at every node"};
}

std::optional<Verdict> judge_persistence(const NodeReport& node) {
  if (node.get("aof_enabled") != "1") {
    return Verdict{Severity::kWarning,
                   "no append-only file: a primary that restarts before the others notice forgets "
                   "its locks, and its replicas follow",
                   "set appendonly yes and appendfsync always, or rely on fencing tokens"};
  }
  const std::string_view fsync = node.get("config appendfsync");
  if (fsync == "always") {
    return Verdict{Severity::kOk, "appendfsync always: answered changes survive a crash", {}};
  }
  return Verdict{Severity::kWarning,
                 "append-only file with appendfsync " +
                     std::string(fsync.empty() ? "unknown" : fsync) +
                     ": a crash of the host forgets what was answered last",
                 "set appendfsync always, or rely on fencing tokens"};
}

std::optional<Verdict> judge_replicas(const NodeReport& node) {
  if (!node.is_primary()) return std::nullopt;
  if (number_in(node.get("connected_slaves")) == 0) {
    return Verdict{Severity::kWarning,
                   "primary without a replica: while it is down, locks in its slots cannot be used",
                   "give every primary a replica, or accept the outage, which loses no lock"};
  }
  return Verdict{Severity::kWarning,
                 "replication is asynchronous: a replica that is promoted may not know of a lock",
                 "rely on fencing tokens for what must not be written twice"};
}

std::optional<Verdict> judge_min_replicas(const NodeReport& node) {
  if (!node.is_primary() || number_in(node.get("connected_slaves")) == 0) return std::nullopt;
  const std::string_view least = node.get("config min-replicas-to-write");
  if (least.empty()) return std::nullopt;
  if (number_in(least) > 0) {
    return Verdict{Severity::kOk,
                   "min-replicas-to-write " + std::string(least) + ", min-replicas-max-lag " +
                       std::string(node.get("config min-replicas-max-lag")) +
                       ": a primary that is cut off stops granting locks",
                   {}};
  }
  return Verdict{Severity::kWarning,
                 "min-replicas-to-write is 0: a primary that is cut off grants locks until "
                 "cluster-node-timeout (" +
                     std::string(node.get("config cluster-node-timeout")) + " ms) has passed",
                 "set min-replicas-to-write 1 and min-replicas-max-lag 2"};
}

std::optional<Verdict> judge_coverage(const NodeReport& node) {
  const std::string_view full = node.get("config cluster-require-full-coverage");
  if (full.empty()) return std::nullopt;
  if (full == "no") {
    return Verdict{Severity::kOk,
                   "cluster-require-full-coverage no: a lost slot stops the locks in it only",
                   {}};
  }
  return Verdict{Severity::kWarning,
                 "cluster-require-full-coverage yes: one slot without a node stops every lock",
                 "set cluster-require-full-coverage no"};
}

std::optional<Verdict> judge_reads(const NodeReport& node) {
  const std::string_view reads = node.get("config cluster-allow-reads-when-down");
  if (reads.empty() || reads == "no") return std::nullopt;
  return Verdict{Severity::kWarning,
                 "cluster-allow-reads-when-down yes: a node that has lost the others still shows "
                 "locks as it last knew them",
                 "set cluster-allow-reads-when-down no"};
}

std::optional<Verdict> judge_state(const NodeReport& node) {
  if (node.get("cluster_enabled") == "0") {
    return Verdict{Severity::kProblem, "not a node of a cluster",
                   "use redis:// for a single server"};
  }
  const std::string_view state = node.get("cluster_state");
  if (state.empty() || state == "ok") return std::nullopt;
  return Verdict{Severity::kProblem,
                 "cluster_state is " + std::string(state) + ": " +
                     std::string(node.get("cluster_slots_ok")) + " of 16384 slots are served",
                 "run redis-cli --cluster check"};
}

std::optional<Verdict> judge_version(const NodeReport& node) {
  const bool valkey = !node.get("valkey_version").empty();
  const std::string text = std::string(valkey ? "Valkey " : "Redis ") +
                           std::string(node.get(valkey ? "valkey_version" : "redis_version"));
  if (number_in(node.get("redis_version")) >= 7) return Verdict{Severity::kOk, text, {}};
  return Verdict{Severity::kWarning, text + ", which Holdfast is not tested with",
                 "use Redis 7.0 or later, or Valkey"};
}

std::optional<Verdict> judge_clock(const NodeReport& node) {
  if (!node.clock_ahead) return std::nullopt;
  const seconds off = node.clock_ahead->count() < 0 ? -*node.clock_ahead : *node.clock_ahead;
  if (off < seconds(2)) {
    return Verdict{Severity::kOk, "the wall clock agrees with this host's", {}};
  }
  return Verdict{Severity::kWarning,
                 "the wall clock is " + std::to_string(off.count()) + " s " +
                     (node.clock_ahead->count() < 0 ? "behind" : "ahead of") + " this host's",
                 "leases end by the server's clock: have all hosts disciplined by NTP, slewing"};
}

struct Topic {
  const char* name;
  Judge judge;
};
constexpr Topic kTopics[] = {
    {"version", judge_version},   {"cluster", judge_state},
    {"coverage", judge_coverage}, {"reads", judge_reads},
    {"eviction", judge_eviction}, {"persistence", judge_persistence},
    {"replicas", judge_replicas}, {"min-replicas", judge_min_replicas},
    {"clock", judge_clock},
};

class ClusterExamination : public port::Examination,
                           public std::enable_shared_from_this<ClusterExamination> {
 public:
  ClusterExamination(ClusterAccess access, base::BootInstant deadline,
                     port::Done<std::vector<Finding>> done)
      : port::Examination(std::move(done)), access_(std::move(access)), deadline_(deadline) {}

  void start() { ask_node(0); }

 private:
  void ask_node(std::size_t at) {
    if (at == access_.nodes.size()) return conclude();
    reports_.emplace_back().address = access_.nodes[at].address;
    ask(at, {"INFO"}, [at](ClusterExamination& self, const Result<Reply>& reply) {
      NodeReport& report = self.reports_[at];
      if (!reply && !is_refusal(reply.error())) {
        report.away = reply.error().message();
        return self.ask_node(at + 1);
      }
      if (reply) read_info(reply->text, report.facts);
      self.ask_settings(at);
    });
  }

  void ask_settings(std::size_t at) {
    ask(at, {"CONFIG", "GET", "*"}, [at](ClusterExamination& self, const Result<Reply>& reply) {
      NodeReport& report = self.reports_[at];
      if (reply) read_config(*reply, report.facts);
      if (!reply) report.no_config = why_not(reply.error(), "CONFIG GET");
      self.ask(at, {"CLUSTER", "INFO"}, [at](ClusterExamination& then, const Result<Reply>& told) {
        if (told) read_info(told->text, then.reports_[at].facts);
        then.ask_time(at);
      });
    });
  }

  void ask_time(std::size_t at) {
    ask(at, {"TIME"}, [at](ClusterExamination& self, const Result<Reply>& reply) {
      const bool told = reply && reply->items.size() == 2;
      if (const long server = told ? number_in(reply->items[0].text) : 0; server > 0) {
        const auto here = std::chrono::duration_cast<seconds>(base::wall_now().time_since_epoch());
        self.reports_[at].clock_ahead = seconds(server) - here;
      }
      self.ask_node(at + 1);
    });
  }

  template <typename Then>
  void ask(std::size_t at, const std::vector<std::string_view>& words, Then then) {
    access_.nodes[at].read(
        words, deadline_,
        [self = shared_from_this(), then](const Result<Reply>& reply) { then(*self, reply); });
  }

  void conclude() {
    std::size_t answered = 0;
    for (const NodeReport& report : reports_) {
      if (report.away.empty()) {
        ++answered;
      } else {
        add(Severity::kProblem, "node", report.address + " does not answer: " + report.away,
            "start it, or let the cluster forget it");
      }
    }
    if (answered == 0) {
      return give_up(Error(Errc::kUnavailable, "no node of the cluster answers"));
    }
    judge_primaries();
    for (const Topic& topic : kTopics) judge(topic);
    port::check_clock_rate(findings_);
    if (!access_.encrypted) add_not_encrypted("not encrypted", "rediss+cluster://");
    try_rights();
  }

  // An election needs the majority of the primaries.
  void judge_primaries() {
    std::size_t primaries = 0;
    for (const NodeReport& report : reports_) primaries += report.is_primary() ? 1 : 0;
    if (primaries >= 3 || primaries == 0) return;
    add(Severity::kWarning, "primaries",
        std::to_string(primaries) + " primaries: no replica can be elected when one is lost",
        "run three primaries or more");
  }

  void judge(const Topic& topic) {
    std::vector<std::pair<Verdict, std::vector<std::string>>> groups;
    for (const NodeReport& report : reports_) {
      if (!report.away.empty()) continue;
      auto verdict = topic.judge(report);
      if (!verdict) continue;
      auto group = groups.begin();
      while (group != groups.end() && !(group->first == *verdict)) ++group;
      if (group == groups.end()) group = groups.insert(group, {*std::move(verdict), {}});
      group->second.push_back(report.address);
    }
    for (const auto& [verdict, addresses] : groups) {
      add(verdict.severity, topic.name, nodes_of(addresses) + verdict.what, verdict.advice);
    }
  }

  std::string nodes_of(const std::vector<std::string>& addresses) const {
    const std::size_t all = reports_.size();
    if (addresses.size() == all) return all == 1 ? addresses.front() + ": " : "all nodes: ";
    std::string text = std::to_string(addresses.size()) + " of " + std::to_string(all) + " nodes (";
    for (const std::string& address : addresses) {
      text += (&address == &addresses.front() ? "" : ", ") + address;
    }
    return text + "): ";
  }

  void try_rights() {
    access_.try_lock(deadline_, [self = shared_from_this()](const Result<void>& locked) {
      self->note_right("rights", locked, "this user may do what locks need");
      self->access_.subscribe(self->deadline_, [self](const Result<void>& subscribed) {
        self->note_right("channel", subscribed, "grants are pushed to those who wait");
        self->finish();
      });
    });
  }

  void note_right(const char* topic, const Result<void>& tried, const char* good) {
    if (tried) return add(Severity::kOk, topic, good);
    add_failed_trial(topic, tried.error(), "redis.md");
  }

  const ClusterAccess access_;
  const base::BootInstant deadline_;
  std::vector<NodeReport> reports_;
};

}  // namespace

void examine_cluster(ClusterAccess access, base::BootInstant deadline,
                     port::Done<std::vector<Finding>> done) {
  std::make_shared<ClusterExamination>(std::move(access), deadline, std::move(done))->start();
}

}  // namespace holdfast::stores::redis
