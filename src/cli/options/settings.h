// The common steps of all commands before they reach the store.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "holdfast/client.h"
#include "src/cli/options/config.h"
#include "src/cli/options/options.h"
#include "src/cli/run/alarms.h"
#include "src/cli/run/narrator.h"

namespace holdfast::cli {

struct Settings {
  Config config;
  StoreChoice store;
  std::string shown_store;  // Without secrets.
};

// Reads the configuration and chooses the store; with -v says on stderr which one. After an error
// `into` holds what could be read of the configuration.
Result<void> resolve(const CommonOptions& common, Settings& into);

// The length of the lease that a lock will get: option, configuration, URL, 30 s.
Duration effective_ttl(const std::optional<Duration>& option, const Settings& settings);

// Says what the library tells of the store; with -q nothing.
Alarms alarms_for(const CommonOptions& common);

// Runs `use` with a client, and closes it. Returns the exit status; complains about failures. When
// it returns, `alarms` has heard all that the library had to tell.
template <typename Use>
int with_client(const CommonOptions& common, const Alarms& alarms, Use use,
                void (*prepare)(ClientOptions&, const Config&) = nullptr);

// complain() and the exit status that fits the error (lost, timeout, own failure).
int fail(const Error& error, const std::string& store);

// complain() about wrong arguments.
int usage_error(const std::string& command, const Error& error);

template <typename Use>
int with_client(const CommonOptions& common, const Alarms& alarms, Use use,
                void (*prepare)(ClientOptions&, const Config&)) {
  Settings settings;
  if (auto resolved = resolve(common, settings); !resolved) return fail(resolved.error(), "");
  ClientOptions options;
  options.log_event = alarms.sink();
  options.program = shown_program({});
  if (prepare != nullptr) prepare(options, settings.config);
  auto client = Client::connect(settings.store.url, std::move(options));
  if (!client) return fail(client.error(), settings.shown_store);
  const int status = use(*client, settings);
  (void)client->close(std::chrono::seconds(2));
  return status;
}

template <typename Use>
int with_client(const CommonOptions& common, Use use) {
  return with_client(common, alarms_for(common), std::move(use));
}

}  // namespace holdfast::cli
