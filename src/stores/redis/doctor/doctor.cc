#include "src/stores/redis/doctor/doctor.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "src/port/examination.h"
#include "src/stores/redis/doctor/facts.h"

namespace holdfast::stores::redis {
namespace {

constexpr char kSeeMore[] =
    "run the doctor as a user with +info +config|get, on a server that has both";

struct Comfort {
  const char* name;
  std::array<std::string_view, 3> words;  // The last word may be empty.
  bool on_database;                       // Append the number of the database.
  const char* right;
  const char* loss;
};

constexpr Comfort kComforts[] = {
    {"PING", {"PING"}, false, "ping", "connections are not tried when they are made"},
    {"SELECT", {"SELECT"}, true, "select", "the URL can name no database but 0"},
    {"CLIENT SETNAME",
     {"CLIENT", "SETNAME", "holdfast"},
     false,
     "client|setname",
     "CLIENT LIST does not show who is Holdfast"},
};

class Examination : public port::Examination, public std::enable_shared_from_this<Examination> {
 public:
  Examination(DoctorAccess access, const RedisAddress& address, base::BootInstant deadline,
              port::Done<std::vector<Finding>> done)
      : port::Examination(std::move(done)),
        access_(std::move(access)),
        address_(address),
        db_(std::to_string(address.db)),
        deadline_(deadline) {}

  void start() {
    if (!access_.ask_sentinel) return ask_info();
    ask_sentinels(access_.ask_sentinel, address_, deadline_,
                  [self = shared_from_this()](SentinelReports reports) {
                    self->sentinels_ = std::move(reports);
                    self->ask_info();
                  });
  }

 private:
  void ask_info() {
    access_.read({"INFO"}, deadline_, [self = shared_from_this()](const Result<Reply>& reply) {
      if (!reply && !is_refusal(reply.error())) return self->give_up(reply.error());
      if (!reply) self->no_info_ = why_not(reply.error(), "INFO");
      if (reply) read_info(reply->text, self->facts_);
      self->ask_config();
    });
  }

  void ask_config() {
    access_.read({"CONFIG", "GET", "*"}, deadline_,
                 [self = shared_from_this()](const Result<Reply>& reply) {
                   if (!reply) self->no_config_ = why_not(reply.error(), "CONFIG GET");
                   if (reply) read_config(*reply, self->facts_);
                   self->ask_time();
                 });
  }

  void ask_time() {
    access_.read({"TIME"}, deadline_, [self = shared_from_this()](const Result<Reply>& reply) {
      if (reply && reply->items.size() == 2) {
        // Converts before it subtracts: nanoseconds could overflow with the time that a server
        // claims.
        const auto here =
            std::chrono::duration_cast<std::chrono::seconds>(base::wall_now().time_since_epoch());
        const long server = number_in(reply->items[0].text);
        if (server > 0) self->clock_ahead_ = std::chrono::seconds(server) - here;
      }
      self->try_rights();
    });
  }

  void try_rights() {
    access_.try_lock(deadline_, [self = shared_from_this()](const Result<void>& locked) {
      self->note_right("rights", locked, "this user may do what locks need");
      self->access_.subscribe(self->deadline_, [self](const Result<void>& subscribed) {
        self->note_right("channel", subscribed, "grants are pushed to those who wait");
        self->try_comforts(0);
      });
    });
  }

  // Permissions that locks do without, but the documented user has.
  void try_comforts(std::size_t at) {
    if (at == std::size(kComforts)) return conclude();
    const Comfort& comfort = kComforts[at];
    std::vector<std::string_view> words(comfort.words.begin(), comfort.words.end());
    std::erase(words, std::string_view());
    if (comfort.on_database) words.emplace_back(db_);
    access_.read(words, deadline_,
                 [self = shared_from_this(), at, &comfort](const Result<Reply>& reply) {
                   if (!reply && is_refusal(reply.error())) {
                     self->add(Severity::kWarning, "comfort",
                               why_not(reply.error(), comfort.name) + ": " + comfort.loss,
                               std::string("give it +") + comfort.right);
                   }
                   self->try_comforts(at + 1);
                 });
  }

  void note_right(const char* topic, const Result<void>& tried, const char* good) {
    if (tried) {
      add(Severity::kOk, topic, good);
    } else {
      add_failed_trial(topic, tried.error(), "redis.md");
    }
  }

  std::string_view fact(std::string_view name) const { return redis::fact(facts_, name); }

  void conclude() {
    judge_sentinels(sentinels_, findings_);
    judge_server();
    judge_memory();
    judge_persistence();
    judge_replicas();
    judge_clock();
    judge_access();
    finish();
  }

  void judge_server();
  void judge_memory();
  void judge_persistence();
  void judge_replicas();
  void judge_lag(long replicas);
  void judge_confirmations(long replicas);
  void judge_clock();
  void judge_access();

  const DoctorAccess access_;
  const RedisAddress address_;
  const std::string db_;
  const base::BootInstant deadline_;
  SentinelReports sentinels_;
  Facts facts_;
  // Why INFO was not answered; empty if it was.
  std::string no_info_;
  std::string no_config_;
  std::optional<std::chrono::seconds> clock_ahead_;
};

void Examination::judge_server() {
  if (!no_info_.empty()) {
    add(Severity::kWarning, "server", no_info_ + ": little can be said", kSeeMore);
    return;
  }
  const std::string version(fact("valkey_version").empty() ? fact("redis_version")
                                                           : fact("valkey_version"));
  const std::string kind = fact("valkey_version").empty() ? "Redis " : "Valkey ";
  if (number_in(fact("redis_version")) < 7) {
    add(Severity::kWarning, "version", kind + version + ", which Holdfast is not tested with",
        "use Redis 7.0 or later, or Valkey");
  } else {
    add(Severity::kOk, "version", kind + version);
  }
  if (fact("cluster_enabled") == "1") {  // Valkey names the mode differently.
    add(Severity::kProblem, "cluster", "the server is a node of a cluster",
        "use a single server; this store does not follow redirections");
  }
}

void Examination::judge_memory() {
  const std::string policy(no_config_.empty() ? fact("config maxmemory-policy")
                                              : fact("maxmemory_policy"));
  if (policy.empty()) {
    add(Severity::kProblem, "eviction",
        "whether the server evicts locks that are held cannot be seen: " + no_config_ +
            (no_info_.empty() ? "" : "; " + no_info_),
        kSeeMore);
    return;
  }
  if (policy == "noeviction") {
    add(Severity::kOk, "eviction", "maxmemory-policy is noeviction: no lock is ever evicted");
  } else if (fact("maxmemory") == "0") {
    add(Severity::kProblem, "eviction",
        "maxmemory-policy is " + policy + "; no limit is set now, but with one locks are evicted",
        "set maxmemory-policy noeviction");
  } else {
    add(Severity::kProblem, "eviction",
        "maxmemory-policy is " + policy + ": a lock that is held can be evicted, and is free then",
        "set maxmemory-policy noeviction");
  }
}

void Examination::judge_persistence() {
  if (!no_info_.empty()) return;
  // Its replicas copy what it has after the restart.
  const std::string empties =
      sentinels_.empty() ? ""
                         : ". A primary that restarts before the Sentinels notice makes its "
                           "replicas forget them, too";
  if (fact("aof_enabled") != "1") {
    add(Severity::kWarning, "persistence",
        "no append-only file: after a crash of the server its locks are forgotten, and two may "
        "believe they hold one" +
            empties,
        "set appendonly yes and appendfsync always, or rely on fencing tokens");
    return;
  }
  const std::string_view fsync = fact("config appendfsync");
  if (fsync == "always") {
    add(Severity::kOk, "persistence", "appendfsync always: answered changes survive a crash");
  } else {
    add(Severity::kWarning, "persistence",
        "append-only file with appendfsync " + std::string(fsync.empty() ? "unknown" : fsync) +
            ": a crash of the host forgets what was answered last" + empties,
        "set appendfsync always, or rely on fencing tokens");
  }
}

void Examination::judge_replicas() {
  if (!no_info_.empty()) return;
  const long replicas = number_in(fact("connected_slaves"));
  if (fact("role") == "slave") {
    add(Severity::kProblem, "role", "the server is a replica, which refuses to lock",
        "connect to the primary");
    return;
  }
  if (replicas > 0) {
    add(Severity::kWarning, "replicas",
        std::to_string(replicas) +
            " replicas: replication is asynchronous, so that a promoted one may not know of a lock",
        "rely on fencing tokens, or wait out the longest lease before a replica is promoted");
    judge_lag(replicas);
  } else {
    add(Severity::kOk, "replicas", "none: no fail-over can lose a lock");
  }
  judge_confirmations(replicas);
}

// How long a primary that is cut off from its replicas goes on granting.
void Examination::judge_lag(long replicas) {
  constexpr long kLongLag = 10;
  constexpr char kAdvice[] = "set min-replicas-to-write 1 and min-replicas-max-lag 2";
  const std::string_view least = fact("config min-replicas-to-write");
  if (least.empty()) return;  // CONFIG was refused, which has a line of its own.
  const long lag = number_in(fact("config min-replicas-max-lag"));
  if (number_in(least) == 0 || lag == 0) {
    add(Severity::kWarning, "min-replicas",
        std::string(lag == 0 ? "min-replicas-max-lag" : "min-replicas-to-write") +
            " is 0: a primary that is cut off goes on granting locks",
        kAdvice);
  } else if (number_in(least) >= replicas && replicas > 1) {
    add(Severity::kWarning, "min-replicas",
        "min-replicas-to-write is " + std::string(least) + " of " + std::to_string(replicas) +
            " replicas: without one of them nobody gets a lock",
        kAdvice);
  } else if (lag > kLongLag) {
    add(Severity::kWarning, "min-replicas",
        "min-replicas-max-lag is " + std::to_string(lag) +
            ": a primary that is cut off goes on granting locks for so many seconds",
        kAdvice);
  } else {
    add(Severity::kOk, "min-replicas",
        "a primary that is cut off stops granting after " + std::to_string(lag) + " s");
  }
}

void Examination::judge_confirmations(long replicas) {
  if (address_.replicas == 0) return;
  const std::string wanted = "replicas=" + std::to_string(address_.replicas);
  // Sentinels remember those that are away; they may come back and be promoted.
  const long known = std::max(replicas, known_replicas(sentinels_));
  if (address_.replicas > replicas) {
    add(Severity::kProblem, "confirmations",
        wanted + " of the URL, but " + std::to_string(replicas) +
            " are connected: no lock can be granted",
        "bring the replicas back, or lower replicas=");
  } else if (address_.replicas < known) {
    add(Severity::kWarning, "confirmations",
        wanted + " of the URL is below the number of replicas (" + std::to_string(known) +
            "): one that has not confirmed a grant may be promoted",
        "set replicas= to the number of replicas that may be promoted");
  } else {
    add(Severity::kOk, "confirmations", wanted + ": all connected replicas confirm each grant");
  }
}

void Examination::judge_clock() {
  port::check_clock_rate(findings_);
  if (!clock_ahead_) return;
  const auto off = clock_ahead_->count() < 0 ? -*clock_ahead_ : *clock_ahead_;
  if (off < std::chrono::seconds(2)) {
    add(Severity::kOk, "clock", "the server's wall clock agrees with this host's");
    return;
  }
  add(Severity::kWarning, "clock",
      "the server's wall clock is " + std::to_string(off.count()) + " s " +
          (clock_ahead_->count() < 0 ? "behind" : "ahead of") + " this host's",
      "leases end by the server's clock: have both disciplined by NTP, slewing, not stepping");
}

void Examination::judge_access() {
  if (!no_config_.empty()) {
    add(Severity::kWarning, "configuration",
        no_config_ + ": the server's configuration is judged by INFO alone", kSeeMore);
  }
  const bool plain_sentinels = !address_.sentinels.empty() && !address_.sentinels.front().tls;
  if (!address_.tls && address_.socket_path.empty()) {
    add_not_encrypted("not encrypted",
                      address_.sentinels.empty() ? "rediss://" : "rediss+sentinel://");
  } else if (plain_sentinels) {
    add_not_encrypted("the Sentinels are asked without encryption", "sentinel_tls=yes");
  }
}

}  // namespace

void examine(DoctorAccess access, const RedisAddress& address, base::BootInstant deadline,
             port::Done<std::vector<Finding>> done) {
  std::make_shared<Examination>(std::move(access), address, deadline, std::move(done))->start();
}

}  // namespace holdfast::stores::redis
