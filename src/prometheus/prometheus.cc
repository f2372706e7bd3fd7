#include "holdfast/prometheus.h"

#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

namespace holdfast {
namespace {

using Counters = ::prometheus::Family<::prometheus::Counter>;
using Histograms = ::prometheus::Family<::prometheus::Histogram>;
using Labels = std::map<std::string, std::string>;
using Buckets = ::prometheus::Histogram::BucketBoundaries;

// From a lock in memory to a job of a day.
const Buckets& long_times() {
  static const Buckets buckets{0.0001, 0.001, 0.005, 0.01, 0.05, 0.1,  0.5,   1,    5,
                               10,     30,    60,    300,  900,  3600, 14400, 86400};
  return buckets;
}

const Buckets& short_times() {
  static const Buckets buckets{0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1,
                               0.25,   0.5,   1,     2.5,  5,     10,   30};
  return buckets;
}

const Buckets& places() {
  static const Buckets buckets{0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};
  return buckets;
}

double seconds(std::chrono::nanoseconds length) {
  return std::chrono::duration<double>(length).count();
}

std::string mode_label(const Mode& mode) {
  switch (mode.kind()) {
    case Mode::Kind::kExclusive: return "exclusive";
    case Mode::Kind::kShared: return "shared";
    case Mode::Kind::kPermits: return "permits";
  }
  return "exclusive";
}

std::string outcome_label(AcquireOutcome outcome) {
  switch (outcome) {
    case AcquireOutcome::kGranted: return "granted";
    case AcquireOutcome::kBusy: return "busy";
    case AcquireOutcome::kTimedOut: return "timed_out";
    case AcquireOutcome::kCancelled: return "cancelled";
    case AcquireOutcome::kFailed: return "failed";
  }
  return "failed";
}

std::string end_label(HoldEnd how) {
  switch (how) {
    case HoldEnd::kReleased: return "released";
    case HoldEnd::kDetached: return "detached";
    case HoldEnd::kExpired: return "expired";
    case HoldEnd::kMaxHold: return "max_hold";
    case HoldEnd::kGone: return "gone";
    case HoldEnd::kBroken: return "broken";
    case HoldEnd::kTakenOver: return "taken_over";
    case HoldEnd::kClosed: return "closed";
  }
  return "expired";
}

class PrometheusObserver final : public Observer {
 public:
  PrometheusObserver(std::shared_ptr<::prometheus::Registry> registry, PrometheusOptions options)
      : registry_(std::move(registry)),
        options_(std::move(options)),
        waits_(histogram("holdfast_acquire_wait_seconds",
                         "From the request for a lock to its answer, by outcome.")),
        handoffs_(counter("holdfast_handoffs_total", "Locks granted to those who had queued.")),
        queue_(histogram("holdfast_queue_length",
                         "How many stood before a waiter, when it came and when that changed.")),
        holds_(histogram("holdfast_hold_seconds", "From the grant to its end.")),
        losses_(counter("holdfast_losses_total",
                        "Leases that ended against their owner's will, by reason.")),
        renewals_(counter("holdfast_renewals_total", "Answered renewals, by result.")),
        lateness_(histogram("holdfast_renewal_lateness_seconds",
                            "How long after its planned instant a renewal was sent.")),
        round_trips_(histogram("holdfast_renewal_round_trip_seconds",
                               "From sending a renewal to its answer.")),
        missed_(counter("holdfast_observations_missed_total",
                        "What was dropped because it came faster than it could be counted.")) {
    missed_.Add({});  // There from the beginning: an alert on its growth sees the first one.
  }

  void acquire_ended(const AcquireSeen& seen) override {
    Labels labels = labels_of(seen.lock);
    if (seen.queued && seen.outcome == AcquireOutcome::kGranted) handoffs_.Add(labels).Increment();
    show_losses_at_zero(labels);
    labels["outcome"] = outcome_label(seen.outcome);
    waits_.Add(labels, long_times()).Observe(seconds(seen.wait));
  }
  void hold_ended(const HoldSeen& seen) override {
    Labels labels = labels_of(seen.lock);
    holds_.Add(labels, long_times()).Observe(seconds(seen.held));
    if (!is_loss(seen.how)) return;
    labels["reason"] = end_label(seen.how);
    losses_.Add(labels).Increment();
  }
  void renewal_done(const RenewalSeen& seen) override {
    Labels labels = labels_of(seen.lock);
    lateness_.Add(labels, short_times()).Observe(seconds(seen.lateness));
    round_trips_.Add(labels, short_times()).Observe(seconds(seen.round_trip));
    labels["result"] = seen.error ? "failed" : "extended";
    renewals_.Add(labels).Increment();
  }
  void queue_seen(const QueueSeen& seen) override {
    if (seen.opens_in.count() > 0) return;  // Its place was told before.
    queue_.Add(labels_of(seen.lock), places()).Observe(seen.ahead);
  }
  void missed(std::size_t count) override { missed_.Add({}).Increment(static_cast<double>(count)); }

 private:
  Counters& counter(const char* name, const char* help) {
    return ::prometheus::BuildCounter()
        .Name(name)
        .Help(help)
        .Labels(options_.labels)
        .Register(*registry_);
  }
  Histograms& histogram(const char* name, const char* help) {
    return ::prometheus::BuildHistogram()
        .Name(name)
        .Help(help)
        .Labels(options_.labels)
        .Register(*registry_);
  }

  Labels labels_of(const SeenLock& lock) {
    Labels labels{{"mode", mode_label(lock.mode)}, {"store", lock.store}};
    if (options_.label_of_name) labels["lock"] = bounded(options_.label_of_name(lock.name));
    return labels;
  }

  // Before the first one: growth from "not there" to one is none to Prometheus.
  void show_losses_at_zero(Labels labels) {
    {
      const std::lock_guard guard(mutex_);
      if (!shown_.insert(labels).second) return;
    }
    for (const HoldEnd how : {HoldEnd::kExpired, HoldEnd::kMaxHold, HoldEnd::kGone,
                              HoldEnd::kBroken, HoldEnd::kTakenOver, HoldEnd::kClosed}) {
      labels["reason"] = end_label(how);
      losses_.Add(labels);
    }
  }

  std::string bounded(std::string label) {
    const std::lock_guard guard(mutex_);
    if (names_.count(label) > 0) return label;
    if (names_.size() >= options_.most_names) return "other";
    return *names_.insert(std::move(label)).first;
  }

  const std::shared_ptr<::prometheus::Registry> registry_;
  const PrometheusOptions options_;
  Histograms& waits_;
  Counters& handoffs_;
  Histograms& queue_;
  Histograms& holds_;
  Counters& losses_;
  Counters& renewals_;
  Histograms& lateness_;
  Histograms& round_trips_;
  Counters& missed_;
  std::mutex mutex_;
  std::set<std::string> names_;
  std::set<Labels> shown_;  // As many as there are labels.
};

bool is_taken(const std::string& label) {
  static const std::set<std::string> taken{"mode",   "store",  "lock", "outcome",
                                           "reason", "result", "le"};
  return taken.count(label) > 0;
}

}  // namespace

Result<std::shared_ptr<Observer>> make_prometheus_observer(
    std::shared_ptr<::prometheus::Registry> registry, PrometheusOptions options) {
  if (registry == nullptr) return Error(Errc::kInvalidArgument, "there is no registry");
  for (const auto& [label, value] : options.labels) {
    if (is_taken(label)) {
      return Error(Errc::kInvalidArgument, "the label '" + label + "' is one of Holdfast's own");
    }
  }
  try {
    return std::shared_ptr<Observer>(
        std::make_shared<PrometheusObserver>(std::move(registry), std::move(options)));
  } catch (const std::invalid_argument& error) {
    return Error(Errc::kInvalidArgument,
                 "Prometheus does not take these metrics: " + std::string(error.what()));
  }
}

}  // namespace holdfast
