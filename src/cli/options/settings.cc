#include "src/cli/options/settings.h"

#include <optional>

#include "src/cli/exit_codes.h"
#include "src/cli/options/duration.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {

Result<void> resolve(const CommonOptions& common, Settings& into) {
  set_log_format(common.log_format.value_or(LogFormat::kText));
  if (auto read = load_config(common.config, into.config); !read) return read;
  auto store = choose_store(common, into.config);
  if (!store) return store.error();
  into.store = *std::move(store);
  into.shown_store = without_secret(into.store.url);
  if (common.verbose) {
    complain("the store is " + printable(shortened(into.shown_store)) + " (from " +
             into.store.source + ")");
  }
  return {};
}

namespace {

std::optional<Duration> url_duration(const Settings& settings, const char* name) {
  auto text = url_option(settings.store.url, name);
  if (!text) return std::nullopt;
  // In a URL a bare number is milliseconds.
  if (text->find_first_not_of("0123456789") == std::string::npos) *text += "ms";
  const auto parsed = parse_duration(*text);
  return parsed ? std::optional<Duration>(*parsed) : std::nullopt;
}

}  // namespace

Duration effective_ttl(const std::optional<Duration>& option, const Settings& settings) {
  Duration ttl = std::chrono::seconds(30);
  if (option) {
    ttl = *option;
  } else if (settings.config.ttl) {
    ttl = *settings.config.ttl;
  } else if (const auto in_url = url_duration(settings, "ttl")) {
    ttl = *in_url;
  }
  return ttl;
}

Alarms alarms_for(const CommonOptions& common) {
  return Alarms(common.quiet ? Alarms::Tell() : relay);
}

int fail(const Error& error, const std::string& store) {
  complain(explain(error, store));
  switch (error.code()) {
    case Errc::kLost:
    case Errc::kBroken: return kExitLost;
    case Errc::kTimedOut: return kExitTimeout;
    default: return kExitError;
  }
}

int usage_error(const std::string& command, const Error& error) {
  std::string message = command + ": " + error.message();
  const std::string hint = "holdfast help " + command;
  if (message.find("holdfast help") == std::string::npos) message += " (see '" + hint + "')";
  complain(message);
  return kExitError;
}

}  // namespace holdfast::cli
