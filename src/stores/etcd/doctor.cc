#include "src/stores/etcd/doctor.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "src/port/examination.h"
#include "src/port/service/journal.h"
#include "src/stores/etcd/transport/errors.h"
#include "src/stores/etcd/transport/versions.h"

namespace holdfast::stores::etcd {
namespace {

using namespace std::chrono_literals;

// With shorter sessions, a leader that stands still costs sessions that its followers could have
// kept.
constexpr auto kShortestSafe = 15s;

class Examination : public port::Examination, public std::enable_shared_from_this<Examination> {
 public:
  // Locks need a session, and a journal none.
  struct Subject {
    std::string key;  // This user may read it.
    const Keys* keys = nullptr;
    std::chrono::seconds session{};
    std::optional<JournalWishes> journal{};
  };
  Examination(Rpc& rpc, const EtcdAddress& address, Subject subject, base::BootInstant deadline,
              Rpc::Then<std::vector<Finding>> then)
      : port::Examination(std::move(then)),
        rpc_(rpc),
        address_(address),
        key_(std::move(subject.key)),
        keys_(subject.keys),
        session_(subject.session),
        journal_(subject.journal),
        deadline_(deadline) {}

  void start() { ask_server(0); }

 private:
  // Less than the whole time, so that a silent server leaves time to ask the others.
  base::BootInstant soon() const {
    return std::min(deadline_, base::BootClock::now() + address_.connect_timeout);
  }

  void ask_server(std::size_t server) {
    if (server == rpc_.servers()) return judge_servers();
    rpc_.call(wire::StatusRequest(), How{soon(), /*reads_only=*/true, server},
              [self = shared_from_this(), server](const Result<wire::StatusResponse>& status) {
                self->take_status(server, status);
                self->ask_server(server + 1);
              });
  }

  void take_status(std::size_t server, const Result<wire::StatusResponse>& status) {
    if (!status) {
      if (status.error().code() == Errc::kPermissionDenied) {
        add(Severity::kWarning, "server " + rpc_.name_of(server),
            "its status may not be asked for: " + status.error().message());
      } else {
        ++silent_;
        add(Severity::kWarning, "server " + rpc_.name_of(server), status.error().message(),
            "start it, or take it out of the URL");
      }
      return;
    }
    versions_.insert(status->version());
    if (status->dbsize() > space_.size) {
      space_ = {status->dbsize(), status->dbsizeinuse(), status->dbsizequota()};
    }
    if (status->leader() == 0) {
      add(Severity::kProblem, "leader", rpc_.name_of(server) + " sees no leader",
          "make sure that a majority of the members run and reach each other");
    }
  }

  void judge_servers() {
    if (silent_ == rpc_.servers()) {
      add(Severity::kProblem, "servers", "no server answers");
      return finish();
    }
    for (const std::string& version : versions_) {
      auto known = judge_version(version);
      if (known.empty()) {
        add(Severity::kOk, "version", version);
      } else {
        findings_.insert(findings_.end(), known.begin(), known.end());
      }
    }
    rpc_.call(wire::MemberListRequest(), How{soon(), /*reads_only=*/true, std::nullopt},
              [self = shared_from_this()](const Result<wire::MemberListResponse>& members) {
                self->judge_members(members);
                self->ask_alarms();
              });
  }

  void judge_members(const Result<wire::MemberListResponse>& members) {
    if (!members) {
      return add(Severity::kWarning, "members",
                 "they could not be asked for: " + members.error().message());
    }
    const auto voting = std::count_if(members->members().begin(), members->members().end(),
                                      [](const wire::Member& each) { return !each.islearner(); });
    const std::string count = std::to_string(voting);
    if (voting == 1) {
      add(Severity::kOk, "members", "one: no lock can be taken while it is down");
    } else if (voting % 2 == 0) {
      add(Severity::kWarning, "members", count + ": no more of them may fail than with one less",
          "use three or five");
    } else {
      add(Severity::kOk, "members", count);
    }
    if (voting > 1 && rpc_.servers() == 1) {
      add(Severity::kWarning, "servers",
          "the URL names one of " + count + " members: when that one fails the session does, too",
          "name all of them, separated by commas");
    }
    if (!journal_ && voting > 1 && session_ < kShortestSafe) {
      add(Severity::kWarning, "session",
          std::to_string(session_.count()) +
              " s: a leader that stands still may cost the session before another is elected",
          "use session=15s or more");
    }
  }

  void ask_alarms() {
    rpc_.call(wire::AlarmRequest(), How{soon(), /*reads_only=*/true, std::nullopt},
              [self = shared_from_this()](const Result<wire::AlarmResponse>& alarms) {
                if (alarms) self->judge_alarms(*alarms);
                self->findings_.push_back(judge_quota(self->space_, self->expected_quota()));
                self->ask_history(1);
              });
  }

  std::uint64_t expected_quota() const { return journal_ ? journal_->quota : 0; }

  // etcd tells how far its history reaches back by refusing what it has compacted.
  void ask_history(std::int64_t revision) {
    wire::RangeRequest request;
    request.set_key(key_);
    request.set_revision(revision);
    request.set_count_only(true);
    rpc_.call(std::move(request), How{soon(), /*reads_only=*/true, std::nullopt},
              [self = shared_from_this(), revision](const Result<wire::RangeResponse>& answer) {
                self->take_history(revision, answer);
              });
  }

  void take_history(std::int64_t revision, const Result<wire::RangeResponse>& answer) {
    const bool compacted = !answer && is_compacted(answer.error());
    if (!answer && !compacted) {
      add(Severity::kWarning, "history", "it could not be asked for: " + answer.error().message());
      return end_of_settings();
    }
    if (revision == 0) {
      history_.revision = answer->header().revision();
      if (history_.revision > kLongHistory) return ask_history(history_.revision - kLongHistory);
    } else if (revision == 1) {
      history_.compacted = compacted;
      return ask_history(0);
    } else {
      history_.long_tail = !compacted;
    }
    findings_.push_back(judge_history(history_, journal_ && journal_->compacts));
    end_of_settings();
  }

  void end_of_settings() {
    const std::string quota = space_.quota == 0 ? ", --quota-backend-bytes" : "";
    add(Severity::kOk, "settings",
        "etcd does not tell these over its API" + std::string(quota.empty() ? "" : " before 3.6") +
            ": --snapshot-count, --auto-compaction-mode, --auto-compaction-retention" + quota,
        "look at how each member was started, and start all in the same way");
    journal_ ? finish() : try_to_write();
  }

  void judge_alarms(const wire::AlarmResponse& alarms) {
    for (const wire::AlarmMember& alarm : alarms.alarms()) {
      if (alarm.alarm() == wire::NOSPACE) {
        add(Severity::kProblem, "space", "a member has used up its quota: nothing can be locked",
            "compact and defragment, then 'etcdctl alarm disarm'");
      } else if (alarm.alarm() == wire::CORRUPT) {
        add(Severity::kProblem, "data", "a member's data is corrupt", "replace that member");
      }
    }
    if (alarms.alarms().empty()) add(Severity::kOk, "alarms", "none");
  }

  // Tries the steps of a lock: creates a lease and a key on it, and removes both.
  void try_to_write() {
    wire::LeaseGrantRequest request;
    request.set_ttl(session_.count());
    rpc_.call(std::move(request), How{soon()},
              [self = shared_from_this()](const Result<wire::LeaseGrantResponse>& lease) {
                if (!lease) return self->judge_writing(lease.error());
                if (lease->ttl() > self->session_.count()) {
                  self->add(Severity::kWarning, "session",
                            "the servers' shortest lease is " + std::to_string(lease->ttl()) +
                                " s: sessions are that long",
                            "ask for that, or use shorter elections");
                }
                self->put_on(lease->id());
              });
  }

  void put_on(std::int64_t lease) {
    wire::PutRequest request;
    request.set_key(keys_->session(lease));
    request.set_lease(lease);
    rpc_.call(std::move(request), How{soon()},
              [self = shared_from_this(), lease](const Result<wire::PutResponse>& put) {
                wire::LeaseRevokeRequest revoke;
                revoke.set_id(lease);
                const std::optional<Error> why = put ? std::nullopt : std::optional(put.error());
                self->rpc_.call(std::move(revoke), How{self->soon()},
                                [self, why](const Result<wire::LeaseRevokeResponse>&) {
                                  self->judge_writing(why);
                                });
              });
  }

  void judge_writing(const std::optional<Error>& why) {
    if (why) {
      add_failed_trial("permissions", *why, "etcd.md");
    } else {
      add(Severity::kOk, "permissions", "sessions can be opened, and keys written");
    }
    port::check_clock_rate(findings_);
    if (!address_.tls) {
      add_not_encrypted("not encrypted", "etcds://");
    }
    finish();
  }

  Rpc& rpc_;
  const EtcdAddress& address_;
  const std::string key_;
  const Keys* const keys_;
  const std::chrono::seconds session_;
  const std::optional<JournalWishes> journal_;
  const base::BootInstant deadline_;
  std::set<std::string> versions_;
  std::size_t silent_ = 0;
  SpaceSeen space_;  // The largest member's.
  HistorySeen history_;
};

std::string mib(std::int64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20U) + " MiB";
}

}  // namespace

Finding judge_quota(const SpaceSeen& seen, std::uint64_t expected_quota) {
  std::string what = "the database has " + mib(seen.size) + ", " + mib(seen.in_use) + " in use";
  const bool told = seen.quota > 0;
  const std::int64_t quota = told ? seen.quota : static_cast<std::int64_t>(expected_quota);
  if (quota == 0) {
    return {Severity::kOk, "quota", what + "; its quota cannot be seen before etcd 3.6",
            "compare with --quota-backend-bytes (2048 MiB where it is not set)"};
  }
  const std::int64_t percent = seen.size / (quota / 100 + 1);
  what += ", " + std::to_string(percent) + " % of " + mib(quota) +
          (told ? "" : ", which quota= of the journal's URL says: etcd tells it since 3.6");
  if (percent < port::DiskSpace::kNearlyFull) return {Severity::kOk, "quota", what, ""};
  return {Severity::kWarning, "quota", what + ": when it is used up, no lock is granted",
          "compact and defragment, or raise --quota-backend-bytes"};
}

Finding judge_history(const HistorySeen& seen, bool compacts) {
  const std::string advice =
      compacts ? ""
               : "start etcd with --auto-compaction-mode=periodic --auto-compaction-retention=5m; "
                 "where nothing but a journal uses it, compact=yes in the journal's URL does, too";
  // No exact numbers: the servers of several shards tell this at different moments.
  if (seen.compacted && !seen.long_tail) {
    return {Severity::kOk, "history",
            std::string("old revisions are compacted") +
                (compacts ? ", also by this service" : "; how often cannot be seen"),
            ""};
  }
  if (seen.long_tail || seen.revision > kLongHistory) {
    return {
        Severity::kWarning, "history",
        "more than " + std::to_string(kLongHistory) + " revisions are kept: they fill the quota",
        advice};
  }
  return {
      Severity::kOk, "history",
      std::string("nothing has been compacted yet") +
          (compacts ? "; this service will do it" : ", and whether anything will cannot be seen"),
      advice};
}

void examine(Rpc& rpc, const EtcdAddress& address, const Keys& keys, std::chrono::seconds session,
             base::BootInstant deadline, Rpc::Then<std::vector<Finding>> then) {
  std::make_shared<Examination>(
      rpc, address, Examination::Subject{.key = keys.session(0), .keys = &keys, .session = session},
      deadline, std::move(then))
      ->start();
}

void examine_journal(Rpc& rpc, const EtcdAddress& address, const std::string& key,
                     const JournalWishes& wishes, base::BootInstant deadline,
                     Rpc::Then<std::vector<Finding>> then) {
  std::make_shared<Examination>(rpc, address, Examination::Subject{.key = key, .journal = wishes},
                                deadline, std::move(then))
      ->start();
}

}  // namespace holdfast::stores::etcd
