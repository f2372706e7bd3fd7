#include "src/stores/redlock/doctor.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "src/port/examination.h"

namespace holdfast::stores::redlock {
namespace {

constexpr std::uint64_t kClocksApart = 1'000'000;

class Examination : public port::Examination, public std::enable_shared_from_this<Examination> {
 public:
  Examination(Nodes& nodes, TryLock try_lock, base::BootInstant deadline,
              port::Done<std::vector<Finding>> done)
      : port::Examination(std::move(done)),
        nodes_(nodes),
        try_lock_(std::move(try_lock)),
        deadline_(deadline),
        left_(nodes.size()) {}

  void start() {
    look_at_nodes();
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      nodes_.read(node, {"CONFIG", "GET", "maxmemory-policy"}, deadline_,
                  [self = shared_from_this(), node](const Result<redis::Reply>& reply) {
                    self->on_policy(node, reply);
                  });
    }
  }

 private:
  void look_at_nodes() {
    std::size_t ready = 0;
    std::vector<std::uint64_t> clocks;
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      const Nodes::Facts facts = nodes_.facts(node);
      if (facts.joined) clocks.push_back(facts.view.clock);
      if (facts.joined && facts.view.ready) {
        ++ready;
        continue;
      }
      add(Severity::kWarning, "nodes", nodes_.name_of(node) + " " + facts.trouble,
          facts.joined ? "it joins by itself; for a new cluster: holdfast store init"
                       : "start the node, or look at the network between");
    }
    const std::string count = std::to_string(ready) + " of " + std::to_string(nodes_.size());
    if (ready < nodes_.majority()) {
      add(Severity::kProblem, "nodes", count + " nodes take part: nobody gets a lock",
          "bring nodes back; a new cluster waits for longest_ttl, or: holdfast store init");
    } else {
      add(Severity::kOk, "nodes", count + " nodes take part");
    }
    if (nodes_.forbidden()) {
      add(Severity::kProblem, "membership", nodes_.forbidden()->message(), "correct the list");
    }
    if (clocks.empty()) return;
    const auto [least, most] = std::minmax_element(clocks.begin(), clocks.end());
    // Looks are up to a look's time apart.
    if (*most - *least > 5 * kClocksApart) {
      add(Severity::kWarning, "clocks",
          "the nodes' clocks are " + std::to_string((*most - *least) / 1000) + " ms apart",
          "run NTP on every node: leases and quarantines end by these clocks");
    }
  }

  void on_policy(std::size_t node, const Result<redis::Reply>& reply) {
    const bool told = reply && reply->items.size() == 2;
    if (told && reply->items[1].text != "noeviction") {
      add(Severity::kProblem, "eviction",
          nodes_.name_of(node) + " evicts (" + reply->items[1].text + "): locks can be forgotten",
          "set maxmemory-policy noeviction");
    }
    if (!told && reply.has_value() == false && reply.error().code() == Errc::kPermissionDenied) {
      add(Severity::kWarning, "eviction", nodes_.name_of(node) + ": this user may not ask CONFIG",
          "run the doctor as a user with +config|get");
    }
    if (--left_ > 0) return;
    port::check_clock_rate(findings_);
    try_lock_([self = shared_from_this()](const Result<void>& tried) {
      if (!tried) self->add_failed_trial("permissions", tried.error(), "docs/stores/redlock.md");
      self->finish();
    });
  }

  Nodes& nodes_;
  const TryLock try_lock_;
  const base::BootInstant deadline_;
  std::size_t left_;
};

}  // namespace

void examine(Nodes& nodes, TryLock try_lock, base::BootInstant deadline,
             port::Done<std::vector<Finding>> done) {
  std::make_shared<Examination>(nodes, std::move(try_lock), deadline, std::move(done))->start();
}

}  // namespace holdfast::stores::redlock
