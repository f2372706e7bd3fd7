// Settings from TOML files, the environment and the options: which store, and defaults for `run`
// and `serve`.
//
// Order, the first that says something wins: option; HOLDFAST_STORE; --config FILE or else the
// user's file ($XDG_CONFIG_HOME/holdfast/config.toml, ~/.config/...), then
// /etc/holdfast/config.toml; the built-in default. With --config the other files are not read.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/cli/options/options.h"

namespace holdfast::cli {

// For locks whose names begin so, where an option does not say otherwise.
struct NameRule {
  std::string prefix;
  std::optional<Duration> ttl;
  std::optional<Duration> wait;
  std::optional<Duration> lock_delay;
};

struct Config {
  std::optional<std::string> store;
  std::optional<Duration> ttl;
  std::vector<NameRule> names;  // [names."PREFIX"]
  RunOptions run;               // Only members with a key in [run] are set.
  ServeOptions serve;           // The same of [serve].
};

// Errors: kInvalidArgument "FILE:LINE: ..." for text that is not TOML, an unknown key or a wrong
// value. A file that cannot be read is an error, too; a missing one only with --config. `into`
// holds what could be read all the same (for exit_error).
Result<void> load_config(const std::optional<std::string>& file, Config& into);

// Fills what the options leave open by the rule with the longest prefix of the lock's name.
void fill_by_name(LockOptions& lock, const Config& config);

// Fills what the options leave open. --data and --journal stand for each other.
void fill_serve(ServeOptions& options, const Config& config);

// Where the store's URL came from, for -v.
struct StoreChoice {
  std::string url;
  std::string source;  // "--store", "HOLDFAST_STORE", "the configuration", "the default"
  // The URL may be given to the command's environment: it came by --store and holds no secret.
  bool exportable = false;
};

// Errors: kInvalidArgument when there is no home to put the default store into; says what to do.
Result<StoreChoice> choose_store(const CommonOptions& common, const Config& config);

// The folder of `holdfast fence`, beside the default store. Errors: kInvalidArgument: no home.
Result<std::string> default_fence_folder();
// That of `holdfast serve`. Errors: as above.
Result<std::string> default_server_folder();

// A password or the like in the URL, also in URLs nested in it; or text that no store understands,
// in which one may stand.
bool holds_secret(const std::string& url);

// The URL without passwords and the like, for messages before a client exists.
std::string without_secret(const std::string& url);

// The passwords and the like in it, each as it is written and decoded.
std::vector<std::string> secrets_of(const std::string& url);

// The value of an option in the URL's query ("ttl"); nullopt: not there.
std::optional<std::string> url_option(const std::string& url, const std::string& key);

// "%20" and the like undone.
std::string url_decoded(std::string_view text);

}  // namespace holdfast::cli
