#include "src/stores/redis/sentinel/sentinel_doctor.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "holdfast/detail/number.h"
#include "src/stores/redis/sentinel/sentinel_answer.h"

namespace holdfast::stores::redis {
namespace {

constexpr long kSlowMs = 10'000;
constexpr long kHastyMs = 1'000;

long number_at(const Reply& list, std::string_view name) {
  return detail::parse_number<long>(sentinel_field(list, name)).value_or(0);
}

void read_master(const Result<Reply>& reply, SentinelReport& report) {
  if (!reply) {
    report.silent = reply.error().message();
  } else if (reply->is_error()) {
    report.silent = "it said " + reply->text.substr(0, 80);
  } else {
    report.host = sentinel_field(*reply, "ip");
    report.port = sentinel_field(*reply, "port");
    report.epoch = number_at(*reply, "config-epoch");
    report.quorum = number_at(*reply, "quorum");
    report.others = number_at(*reply, "num-other-sentinels");
    report.replicas = number_at(*reply, "num-slaves");
    report.down_after_ms = number_at(*reply, "down-after-milliseconds");
  }
}

void read_quorum_check(const Result<Reply>& reply, SentinelReport& report) {
  if (!reply) {
    report.unasked = reply.error().message();
  } else if (reply->error_word() == "NOQUORUM") {
    report.cannot = reply->text;
  } else if (reply->is_error()) {
    report.unasked = reply->text.substr(0, 80);
  }
}

std::string counted(long number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

class SentinelJudgement {
 public:
  SentinelJudgement(const SentinelReports& reports, port::Findings& findings)
      : findings_(findings) {
    named_ = static_cast<long>(reports.size());
    for (const SentinelReport& each : reports) {
      if (!each.silent.empty()) {
        add(Severity::kWarning, "sentinel",
            each.where + " tells nothing about the primary: " + each.silent,
            "start it, or take it out of the URL");
        continue;
      }
      heard_.push_back(&each);
      all_ = std::max(all_, each.others + 1);
    }
  }

  void judge() {
    if (heard_.empty()) return;
    judge_number();
    judge_agreement();
    judge_quorum();
    judge_possible();
    judge_replicas();
    judge_down_after();
  }

 private:
  void add(Severity severity, const char* topic, std::string what, std::string advice = {}) {
    port::add(findings_, severity, topic, std::move(what), std::move(advice));
  }
  // Whether all that answered have the same value.
  template <typename Value>
  bool agree(Value SentinelReport::*field) const {
    return std::all_of(heard_.begin(), heard_.end(), [&](const SentinelReport* each) {
      return each->*field == heard_.front()->*field;
    });
  }

  void judge_number();
  void judge_agreement();
  void judge_quorum();
  void judge_possible();
  void judge_replicas();
  void judge_down_after();

  port::Findings& findings_;
  std::vector<const SentinelReport*> heard_;
  long named_ = 0;  // In the URL.
  long all_ = 0;    // That the Sentinels know of.
};

void SentinelJudgement::judge_number() {
  if (all_ < 3) {
    add(Severity::kWarning, "sentinels",
        all_ == 1 ? "one Sentinel: while it is away nobody replaces a lost primary, and it cannot "
                    "tell a lost primary from its own lost connection"
                  : "two Sentinels: a fail-over needs both",
        "run three Sentinels or more, on hosts of their own");
  } else if (named_ < all_) {
    add(Severity::kWarning, "sentinels",
        "the URL names " + std::to_string(named_) + " of " + counted(all_, "Sentinel") +
            ": without those, a client learns of no fail-over",
        "name all Sentinels in the URL");
  } else {
    add(Severity::kOk, "sentinels", counted(all_, "Sentinel") + ", all named in the URL");
  }
}

void SentinelJudgement::judge_agreement() {
  if (!agree(&SentinelReport::host) || !agree(&SentinelReport::port) ||
      !agree(&SentinelReport::epoch)) {
    std::string each_says;
    for (const SentinelReport* each : heard_) {
      each_says += (each_says.empty() ? "" : ", ") + each->where + " says " + each->host + ":" +
                   each->port + " (epoch " + std::to_string(each->epoch) + ")";
    }
    add(Severity::kWarning, "agreement", "the Sentinels name different primaries: " + each_says,
        "ask again in a few seconds; if it stays so, look whether they reach each other and watch "
        "the same servers");
  }
  if (!agree(&SentinelReport::quorum) || !agree(&SentinelReport::down_after_ms)) {
    add(Severity::kWarning, "agreement",
        "the Sentinels have different values of quorum or down-after-milliseconds",
        "use SENTINEL SET at each of them, with the same values");
  }
  // Each one that answers and is not known to the others belongs to another group.
  if (static_cast<long>(heard_.size()) > all_) {
    add(Severity::kProblem, "agreement",
        counted(static_cast<long>(heard_.size()), "Sentinel") +
            " of the URL answer, but none knows more than " + std::to_string(all_) +
            ": groups that do not know each other may promote different replicas",
        "let them watch the same primary, so that they find each other");
  }
}

void SentinelJudgement::judge_quorum() {
  const auto by_quorum = [](const SentinelReport* a, const SentinelReport* b) {
    return a->quorum < b->quorum;
  };
  const long low = (*std::min_element(heard_.begin(), heard_.end(), by_quorum))->quorum;
  const long high = (*std::max_element(heard_.begin(), heard_.end(), by_quorum))->quorum;
  const long majority = all_ / 2 + 1;
  const std::string best = "set it to " + std::to_string(majority) +
                           ", the majority: SENTINEL SET NAME quorum " + std::to_string(majority);
  if (high > all_) {
    add(Severity::kProblem, "quorum",
        "quorum " + std::to_string(high) + " cannot be reached by " + counted(all_, "Sentinel") +
            ": a lost primary is never replaced",
        best);
  } else if (high > majority) {
    add(Severity::kWarning, "quorum",
        "quorum " + std::to_string(high) + " is above the majority of " +
            counted(all_, "Sentinel") + ": with " + counted(all_ - high + 1, "Sentinel") +
            " away, a lost primary is not replaced",
        best);
  } else if (low < majority) {
    add(Severity::kWarning, "quorum",
        "quorum " + std::to_string(low) + " of " + counted(all_, "Sentinel") +
            ": too few of them have to see that the primary is away, so a primary that works may "
            "be replaced, which can lose locks",
        best);
  } else {
    add(Severity::kOk, "quorum",
        "quorum " + std::to_string(high) + " of " + counted(all_, "Sentinel"));
  }
}

void SentinelJudgement::judge_possible() {
  for (const SentinelReport* each : heard_) {
    if (!each->unasked.empty()) {
      add(Severity::kWarning, "fail-over",
          each->where + " does not answer SENTINEL CKQUORUM: " + each->unasked,
          "give the Sentinels' user +sentinel|ckquorum");
    } else if (!each->cannot.empty()) {
      add(Severity::kProblem, "fail-over",
          each->where + " cannot have a lost primary replaced: " + each->cannot,
          "start the Sentinels that are away, and look whether they reach each other");
    }
  }
  const bool all_can = std::all_of(heard_.begin(), heard_.end(), [](const SentinelReport* each) {
    return each->unasked.empty() && each->cannot.empty();
  });
  if (all_can) add(Severity::kOk, "fail-over", "enough Sentinels can vote for a fail-over");
}

void SentinelJudgement::judge_replicas() {
  const bool none = std::all_of(heard_.begin(), heard_.end(),
                                [](const SentinelReport* each) { return each->replicas == 0; });
  if (!none) return;
  add(Severity::kProblem, "promotion",
      "the Sentinels know of no replica, so nothing can replace a lost primary",
      "add a replica of the primary");
}

void SentinelJudgement::judge_down_after() {
  const long ms = (*std::max_element(heard_.begin(), heard_.end(), [](auto* a, auto* b) {
                    return a->down_after_ms < b->down_after_ms;
                  }))->down_after_ms;
  const std::string after = "a primary is called down after " + std::to_string(ms) + " ms";
  if (ms > kSlowMs) {
    add(Severity::kWarning, "down-after",
        after + ": until then no lock can be taken or renewed, and shorter leases are lost",
        "set down-after-milliseconds to 5000 or so, or use a ttl of three times as much");
  } else if (ms < kHastyMs) {
    add(Severity::kWarning, "down-after",
        after + ": a short stall is enough for a fail-over, which can lose locks",
        "set down-after-milliseconds to 1000 or more");
  } else {
    add(Severity::kOk, "down-after",
        after + ": leases of three times as much outlast a fail-over");
  }
}

// The reports under way.
struct AskingSentinels {
  SentinelReports reports;
  std::size_t unanswered = 0;
  std::function<void(SentinelReports)> done;
};

}  // namespace

void ask_sentinels(const AskSentinel& ask, const RedisAddress& address, base::BootInstant deadline,
                   std::function<void(SentinelReports)> done) {
  const auto until = std::min(deadline, base::BootClock::now() + address.connect_timeout);
  auto asking = std::make_shared<AskingSentinels>();
  asking->reports.resize(address.sentinels.size());
  asking->unanswered = address.sentinels.size();
  asking->done = std::move(done);
  for (std::size_t i = 0; i < address.sentinels.size(); ++i) {
    asking->reports[i].where = address.sentinels[i].display();
    ask(i, {"SENTINEL", "MASTER", address.primary}, until,
        [asking, i](const Result<Reply>& reply) { read_master(reply, asking->reports[i]); });
    ask(i, {"SENTINEL", "CKQUORUM", address.primary}, until,
        [asking, i](const Result<Reply>& reply) {
          read_quorum_check(reply, asking->reports[i]);
          if (--asking->unanswered == 0) asking->done(std::move(asking->reports));
        });
  }
}

void judge_sentinels(const SentinelReports& reports, port::Findings& findings) {
  SentinelJudgement(reports, findings).judge();
}

long known_replicas(const SentinelReports& reports) {
  long most = 0;
  for (const SentinelReport& each : reports) most = std::max(most, each.replicas);
  return most;
}

}  // namespace holdfast::stores::redis
