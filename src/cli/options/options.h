// The options of each command, read from its arguments.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/mode.h"
#include "holdfast/result.h"

namespace holdfast::cli {

using Duration = std::chrono::milliseconds;

// stderr's.
enum class LogFormat { kText, kJson, kLogfmt };

struct CommonOptions {
  std::optional<std::string> store;
  std::optional<std::string> config;
  std::optional<LogFormat> log_format;
  bool json = false;
  bool verbose = false;
  bool quiet = false;
  bool help = false;
};

// How a lock is asked for.
struct LockOptions {
  std::string name;
  Mode mode = Mode::exclusive();
  std::optional<Duration> wait;  // Not set: without limit; zero: not at all.
  std::optional<Duration> ttl;
  std::optional<Duration> max_hold;
  std::optional<Duration> lock_delay;
  std::string reason;
  std::string trace_id;
  std::string ignored;  // An unusable value in the environment, in a sentence.
};

enum class OnLost { kTerm, kKill, kIgnore };
enum class Leftover { kEnd, kWait, kLeave };
enum class Contain { kTree, kPidns, kCgroup };  // contain.h

struct RunOptions {
  CommonOptions common;
  LockOptions lock;
  std::vector<std::string> command;
  std::optional<Duration> min_hold;
  std::optional<Duration> kill_after;
  std::optional<OnLost> on_lost;
  Leftover leftover = Leftover::kEnd;
  bool reenter = false;  // Under the lease of a run around this one, if it holds the lock.
  std::optional<Contain> contain;
  std::optional<std::string> metrics_textfile;
  std::optional<int> json_fd;
  std::optional<int> exit_max_hold;
  std::optional<int> exit_lost;
  std::optional<int> exit_timeout;
  std::optional<int> exit_error;
};

struct ElectOptions {
  RunOptions run;      // Without a command when it only observes.
  std::string value;   // Its proclamation.
  bool again = false;  // A loss is followed by another campaign.
  bool observe = false;
  std::optional<int> count;  // The number of changes to observe.
};

struct HoldOptions {  // Also of `acquire`.
  CommonOptions common;
  LockOptions lock;
};

struct LeaseOptions {  // `renew` and `release`.
  CommonOptions common;
  std::string lease;
  std::optional<Duration> ttl;
};

struct LookOptions {  // `ls`, `status`, `inspect`, `watch`: a prefix or a name.
  CommonOptions common;
  std::string name;
  std::optional<int> count;
  bool outcomes = false;  // For `ls`: also the outcomes of finished Onces.
};

enum class TopSort { kName, kQueue, kAge, kLeft };

struct TopOptions {
  CommonOptions common;
  std::string prefix;
  Duration interval{1'000};
  TopSort sort = TopSort::kName;
  bool once = false;
  bool plain = false;
};

struct BreakOptions {
  CommonOptions common;
  std::string name;
  std::string token;
  std::string reason;
};

struct DoctorOptions {
  CommonOptions common;
  std::vector<std::string> require;
};

struct StoreOptions {
  CommonOptions common;
  bool print_sql = false;
};

struct FailoverOptions {
  CommonOptions common;
  std::string verb;         // "status", "switch", "return"
  std::uint32_t place = 0;  // From 1; 0: the next one.
};

struct ServeOptions {
  CommonOptions common;  // Among these: config, json, quiet, help, log_format.
  std::optional<std::string> listen;
  std::optional<std::string> http;
  std::optional<std::string> http_hosts;
  std::optional<std::string> data;
  std::optional<std::string> journal;
  std::optional<int> shards;
  std::optional<int> connection_rate;
  std::optional<std::string> advertise;
  std::optional<std::string> users;
  std::optional<std::string> tls_cert;
  std::optional<std::string> tls_key;
  std::optional<std::string> tls_ca;
  bool plaintext = false;
  bool clients_stopped = false;
};

// The options of `serve` that are texts, each also a key of the configuration.
struct ServeText {
  const char* key;  // "tls_cert": the option is --tls-cert.
  std::optional<std::string> ServeOptions::*field;
  std::string_view offers = "text";  // As in OptionTable::value().
};
inline constexpr ServeText kServeTexts[] = {
    {"listen", &ServeOptions::listen},
    {"http", &ServeOptions::http},
    {"http_host", &ServeOptions::http_hosts},
    {"data", &ServeOptions::data, "folder"},
    {"journal", &ServeOptions::journal, "sqlite:|etcd://|memory:"},
    {"advertise", &ServeOptions::advertise},
    {"users", &ServeOptions::users, "file"},
    {"tls_cert", &ServeOptions::tls_cert, "file"},
    {"tls_key", &ServeOptions::tls_key, "file"},
    {"tls_ca", &ServeOptions::tls_ca, "file"},
};

// The path in the place of a journal, which is a folder or a URL: "DIR", "sqlite:DIR".
std::string_view path_of(std::string_view place);

struct ServerToolOptions {
  CommonOptions common;
  // "verify", "backup", "restore", "password"; those of asks_servers() use the store.
  std::string verb;
  std::string address;  // "drain"
  std::string from;
  std::string to;
};

struct BenchOptions {
  CommonOptions common;
  int in_flight = 1;
  std::optional<int> threads;  // As many, each with one in flight; not set: one serves all.
  int names = 1;
  Duration duration{2'000};
  std::optional<Duration> ttl;
};

struct FenceOptions {
  CommonOptions common;  // Among these: json, quiet, help.
  std::string resource;
  std::optional<std::string> token;
  std::optional<Mode> mode;
  std::optional<std::string> file;
  std::optional<std::string> state;
  std::optional<Duration> wait;
  std::vector<std::string> command;
};

struct IdOptions {
  CommonOptions common;
  std::string verb;  // init, next, decode, workers, status or floor.
  std::string what;  // A name, or the id to decode.
  std::optional<std::string> file;
  std::optional<std::string> layout;
  std::optional<std::string> policy;
  std::optional<std::string> workers;  // "0-63"
  int count = 1;
  bool uuid = false;
  bool ulid = false;
  bool segments = false;
  bool counter = false;
  bool durable = false;  // --require durable
  std::optional<std::string> floor;
  std::string reason;
};

// Errors: kInvalidArgument with a sentence for people. With `common.help` the rest is not checked.
// `into` holds what could be read also after an error (for --exit-error).
using Arguments = std::vector<std::string>;
Result<void> parse_run(const Arguments& arguments, RunOptions& into);
Result<void> parse_elect(const Arguments& arguments, ElectOptions& into);
Result<void> parse_hold(const std::string& command, const Arguments& arguments, HoldOptions& into);
Result<void> parse_lease(const std::string& command, const Arguments& arguments,
                         LeaseOptions& into);
Result<void> parse_look(const std::string& command, const Arguments& arguments, LookOptions& into);
Result<void> parse_top(const Arguments& arguments, TopOptions& into);
Result<void> parse_break(const Arguments& arguments, BreakOptions& into);
Result<void> parse_doctor(const Arguments& arguments, DoctorOptions& into);
Result<void> parse_store(const Arguments& arguments, StoreOptions& into);
Result<void> parse_failover(const Arguments& arguments, FailoverOptions& into);
Result<void> parse_serve(const Arguments& arguments, ServeOptions& into);
// The rules for what parse_serve() and a configuration file have read.
Result<void> check_serve(const ServeOptions& options);
// Whether that verb of `server` asks the servers of a URL.
bool asks_servers(const std::string& verb);
Result<void> parse_server(const Arguments& arguments, ServerToolOptions& into);
Result<void> parse_bench(const Arguments& arguments, BenchOptions& into);
Result<void> parse_id(const Arguments& arguments, IdOptions& into);
Result<void> parse_fence(const Arguments& arguments, FenceOptions& into);

}  // namespace holdfast::cli
