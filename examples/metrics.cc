// docs/guide/observability.md quotes this use of the exporter for Prometheus; it runs as a test.
#include <cstdio>
#include <memory>
#include <string>

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "holdfast/holdfast.h"
#include "holdfast/prometheus.h"

namespace {

// [region: prometheus]
holdfast::Result<holdfast::Client> measured(std::shared_ptr<prometheus::Registry> registry) {
  auto observer = holdfast::make_prometheus_observer(std::move(registry));
  if (!observer) return observer.error();
  holdfast::ClientOptions options;
  options.observer = *observer;
  return holdfast::Client::connect("memory:", std::move(options));
}
// [end]

holdfast::PrometheusOptions few_names() {
  // [region: names]
  holdfast::PrometheusOptions options;
  options.label_of_name = [](std::string_view name) {
    return std::string(name.substr(0, name.find('/')));  // "orders" for "orders/42"
  };
  // [end]
  return options;
}

}  // namespace

int main() {
  const auto registry = std::make_shared<prometheus::Registry>();
  {
    auto client = measured(registry);
    if (!client || !client->mutex("orders/42").acquire()) return 1;
  }
  if (!holdfast::make_prometheus_observer(std::make_shared<prometheus::Registry>(), few_names())) {
    return 1;
  }
  const std::string scraped = prometheus::TextSerializer().Serialize(registry->Collect());
  std::printf("%s", scraped.c_str());
  return scraped.find("holdfast_hold_seconds_count") != scraped.npos ? 0 : 1;
}
