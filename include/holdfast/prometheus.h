// An observer that feeds a Prometheus registry (prometheus-cpp): waits, holds, renewals, losses.
//
//   auto registry = std::make_shared<prometheus::Registry>();
//   holdfast::ClientOptions options;
//   options.observer = holdfast::make_prometheus_observer(registry).value();
//   auto client = holdfast::Client::connect("sqlite:///var/lib/app/locks.db", options);
//   exposer.RegisterCollectable(registry);   // Or however you are scraped.
//
// Needs the component `prometheus` of a build: find_package(holdfast COMPONENTS prometheus) gives
// holdfast::prometheus, or pkg-config holdfast-prometheus. Names, labels and units of the metrics,
// and what to alert on: docs/guide/observability.md.
//
// Guarantee: the labels are the mode, the store and, only if you ask for it, the answer of
// `label_of_name` for a lock's name. This label has at most `most_names` different values.
// Not guaranteed: that a scrape shows the latest events: the notifier thread reports them.
//
// Thread-safety: several clients may share one observer; the registry of prometheus-cpp is safe.
// Ownership: the observer keeps the registry.
// Errors: kInvalidArgument: Prometheus does not allow a constant label, or the registry already has
// metrics of these names with other labels. Fix the options.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "holdfast/export.h"
#include "holdfast/observer.h"
#include "holdfast/result.h"

namespace prometheus {
class Registry;
}

namespace holdfast {

struct PrometheusOptions {
  // On every metric: {"service", "billing"}.
  std::map<std::string, std::string> labels{};
  // Maps a lock's name to the label `lock`; must not throw. Not set: there is no such label. Every
  // label costs some sixty time series: answer one of few ("orders" for "orders/42"), never the
  // name itself where names come and go.
  std::function<std::string(std::string_view name)> label_of_name{};
  // More different labels than that become "other".
  std::size_t most_names = 100;
};

HOLDFAST_EXPORT Result<std::shared_ptr<Observer>> make_prometheus_observer(
    std::shared_ptr<::prometheus::Registry> registry, PrometheusOptions options = {});

}  // namespace holdfast
