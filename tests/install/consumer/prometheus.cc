// Counts what its locks cost; ends with 0 when a scrape says so.
#include <cstdio>
#include <string>

#include <holdfast/holdfast.h>
#include <holdfast/prometheus.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

int main(int argc, char** argv) {
  auto registry = std::make_shared<prometheus::Registry>();
  for (int i = 1; i < argc; ++i) {
    holdfast::ClientOptions options;
    options.observer = holdfast::make_prometheus_observer(registry).value();
    auto client = holdfast::Client::connect(argv[i], options);
    if (!client) return std::fprintf(stderr, "%s\n", client.error().message().c_str()), 1;
    auto lease = client->mutex("consumer").acquire();
    if (!lease || !lease->release()) return 1;
  }
  const std::string text = prometheus::TextSerializer().Serialize(registry->Collect());
  return text.find("holdfast_hold_seconds_count") != text.npos ? 0 : 1;
}
