#include "holdfast/client.h"

#include <sys/stat.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "holdfast/stores.h"
#include "src/base/printable.h"
#include "src/client/ask.h"
#include "src/client/checked_records.h"
#include "src/client/registry.h"
#include "src/port/native_counter.h"
#include "src/port/registry.h"
#include "src/port/url_options.h"
#include "src/primitives/lease_id.h"
#include "src/primitives/lock_state.h"
#include "src/primitives/start.h"
#include "src/session/core.h"
#include "src/session/names.h"

namespace holdfast {
namespace {

// Beyond it nothing useful is left of a lease.
constexpr std::uint32_t kWorstClock = 500'000;
// For records, where the URL names no time.
constexpr std::chrono::seconds kOpening{10};

// Taken out before the URL is shown to anybody, because it is no part of a store's identity.
constexpr port::UrlOption kOpenTimeout[] = {
    port::time_option("open_timeout", "", "how long opening the client may take"),
};
// Every store has these.
constexpr port::UrlOption kCommonOptions[] = {
    port::time_option("ttl", "", "the lease where a call names none", std::chrono::milliseconds(0)),
    port::time_option("request_timeout", "", "how long one request may take"),
    port::text_option("ns", "what all names of locks begin with"),
};

// The shorter one counts of the program's limit and the URL's.
Result<void> take_open_timeout(port::StoreUrl& url, std::chrono::milliseconds& limit) {
  constexpr std::chrono::milliseconds kNone{};
  const auto taken = port::UrlOptions::take(url, "store", kOpenTimeout);
  if (!taken) return taken.error();
  if (limit < kNone) return Error(Errc::kInvalidArgument, "open_timeout must not be below zero");
  if (taken->has("open_timeout")) {
    const std::chrono::milliseconds its = taken->time("open_timeout");
    limit = limit == kNone ? its : std::min(limit, its);
  }
  limit = std::min<std::chrono::milliseconds>(limit, session::Core::kLongestRequest);
  return {};
}

Result<void> take_common_options(port::StoreUrl& url, session::CoreOptions& options) {
  const auto taken = port::UrlOptions::take(url, "store", kCommonOptions);
  if (!taken) return taken.error();
  options.url_has_ttl = taken->has("ttl");
  if (options.url_has_ttl) options.client.default_ttl = taken->time("ttl");
  if (taken->has("request_timeout")) {
    options.client.request_timeout = taken->time("request_timeout");
  }
  if (!taken->has("ns")) return {};
  options.name_space = taken->text("ns");
  if (!session::check_name(options.name_space) || options.name_space.size() > 64) {
    return Error(Errc::kInvalidArgument,
                 "store URL: ns: a namespace is written like a lock name, in at most 64 bytes");
  }
  return {};
}

// The warnings about files with secrets that every user of the host can read.
std::vector<std::string> open_secrets(const port::StoreUrl& url) {
  std::vector<std::string> warnings;
  for (const auto& [key, path] : url.options) {
    struct stat file {};
    if (key != "password_file" && key != "token_file") continue;
    if (::stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
    if ((file.st_mode & S_IROTH) == 0) continue;
    warnings.push_back("every user of this host can read " + key + " '" + base::printable(path) +
                       "': take that right away (chmod o-r)");
  }
  return warnings;
}

// `schema`: asks for that instead of a store; the core is then of no other use.
Result<std::shared_ptr<session::Core>> open_core(std::string_view url_text, ClientOptions options,
                                                 port::SchemaJob* schema,
                                                 port::ChainJob* chain = nullptr,
                                                 port::ServersJob* servers = nullptr) {
  auto url = port::StoreUrl::parse(url_text);
  if (!url) return url.error();
  auto factory = client::find_store(url->scheme);
  if (!factory) return factory.error();
  session::CoreOptions core_options;
  core_options.client = std::move(options);
  if (auto taken = take_open_timeout(*url, core_options.client.open_timeout); !taken) {
    return taken.error();
  }
  core_options.store_url = url->redacted();
  core_options.schema = schema;
  core_options.chain = chain;
  core_options.servers = servers;
  core_options.find_store = &client::find_store;
  if (auto taken = take_common_options(*url, core_options); !taken) return taken.error();
  // The servers of the lock service change their leader as a matter of course.
  const StoreKind* const kind = store_of_url(url_text);
  core_options.outlasts_first = kind != nullptr && kind->is_service;
  if (core_options.client.request_timeout <= std::chrono::milliseconds::zero()) {
    return Error(Errc::kInvalidArgument, "request_timeout must be above zero");
  }
  if (core_options.client.clock_rate_error_ppm > kWorstClock) {
    return Error(Errc::kInvalidArgument,
                 "clock_rate_error_ppm is at most 500000: clocks that differ by more are broken");
  }
  const std::string shown = url->redacted();
  const auto warnings = open_secrets(*url);
  try {
    auto core = session::Core::make(*factory, *std::move(url), std::move(core_options));
    if (!core) return core.error();
    for (const std::string& warning : warnings) (*core)->on_alarm(warning);
    return core;
  } catch (const std::system_error& error) {
    // No thread, no descriptor: the system's limits.
    return Error(Errc::kUnavailable, "cannot start a client of " + shown + ": " + error.what());
  }
}

// Whether the job was done; false: there are no tables to make.
Result<bool> do_schema_job(std::string_view url, port::SchemaJob& job) {
  const StoreKind* const kind = store_of_url(url);
  if (kind != nullptr && !kind->has_schema) return false;
  const auto core = open_core(url, {}, &job);
  if (!core) return core.error();
  return !job.sql.empty() || !job.made.place.empty();
}

Result<ChainStatus> do_chain_job(std::string_view url, port::ChainJob job) {
  const StoreKind* const kind = store_of_url(url);
  if (kind != nullptr && !kind->is_chain) {
    return Error(Errc::kUnsupported,
                 "the " + std::string(kind->name) + " store is no chain of stores");
  }
  const auto core = open_core(url, {}, /*schema=*/nullptr, &job);
  if (!core) return core.error();
  return std::move(job.found);
}

Result<port::ServersJob> do_servers_job(std::string_view url, port::ServersJob job) {
  const StoreKind* const kind = store_of_url(url);
  if (kind != nullptr && !kind->is_service) {
    return Error(Errc::kUnsupported, "the " + std::string(kind->name) +
                                         " store is not the lock service: name its servers as "
                                         "holdfast://HOST,HOST");
  }
  const auto core = open_core(url, {}, /*schema=*/nullptr, /*chain=*/nullptr, &job);
  if (!core) return core.error();
  return job;
}

// A factory needs this to answer a job about what ids keep in its store.
struct IdsOpening {
  port::StoreFactory factory = nullptr;
  port::StoreUrl url;
  const StoreKind* kind = nullptr;
  std::string name_space;
  port::StoreContext context;
  std::unique_ptr<client::RecordsLoop> loop;  // Null where the store needs none.

  Result<void> ask() { return client::ask_store(factory, std::move(url), context); }
};

Result<IdsOpening> read_ids_url(const std::string& url_text) {
  auto url = port::StoreUrl::parse(url_text);
  if (!url) return url.error();
  const auto factory = client::find_store(url->scheme);
  if (!factory) return factory.error();
  session::CoreOptions common;
  std::chrono::milliseconds limit{};
  if (auto taken = take_open_timeout(*url, limit); !taken) return taken.error();
  if (auto taken = take_common_options(*url, common); !taken) return taken.error();
  IdsOpening opening;
  opening.factory = *factory;
  opening.url = *std::move(url);
  opening.kind = store_of_url(url_text);
  opening.name_space = common.name_space;
  opening.context.name_space = common.name_space;
  if (limit == std::chrono::milliseconds::zero()) limit = kOpening;
  opening.context.open_by = base::BootClock::now() + limit;
  opening.context.find = &client::find_store;
  // Servers are asked over a loop; only those have a log-in.
  if (opening.kind->login != StoreLogin::kNone) {
    opening.loop = std::make_unique<client::RecordsLoop>();
    opening.context.loop = &opening.loop->events;
    opening.context.io = &opening.loop->events.io();
    opening.context.listener = opening.loop.get();
  }
  return opening;
}

// A counter, and what its store needs as long as it is there.
class LoopedCounter final : public port::NativeCounter {
 public:
  LoopedCounter(std::unique_ptr<client::RecordsLoop> loop, std::unique_ptr<NativeCounter> store)
      : loop_(std::move(loop)), store_(std::move(store)) {}

  Result<Taken> take(std::uint32_t count, base::BootInstant by) override {
    if (base::BootClock::now() < by) return store_->take(count, by);
    return Error(Errc::kUnavailable, "the deadline of a request for numbers had passed; not sent");
  }
  std::string forgets() const override { return store_->forgets(); }
  bool caches() const override { return store_->caches(); }

 private:
  const std::unique_ptr<client::RecordsLoop> loop_;  // Outlives the store's counter.
  const std::unique_ptr<NativeCounter> store_;
};

Result<std::unique_ptr<port::NativeCounter>> do_counter_job(const std::string& url,
                                                            port::NativeCounterJob job) {
  constexpr std::size_t kLongestName = 400;
  auto opening = read_ids_url(url);
  if (!opening) return opening.error();
  if (opening->kind->counter.empty()) {
    return Error(Errc::kUnsupported, "the " + std::string(opening->kind->name) +
                                         " store has no counters that other programs know: take "
                                         "segments");
  }
  if (!opening->name_space.empty()) {
    return Error(Errc::kInvalidArgument,
                 "ns= is of no use with a counter: give its whole name, as other programs have it");
  }
  if (job.name.empty() || job.name.size() > kLongestName || base::printable(job.name) != job.name) {
    return Error(Errc::kInvalidArgument, "the name of a counter has 1 to " +
                                             std::to_string(kLongestName) +
                                             " bytes, and no control characters");
  }
  opening->context.counter = &job;
  if (const auto done = opening->ask(); !done) return done.error();
  if (job.create_from) return std::unique_ptr<port::NativeCounter>();
  return std::unique_ptr<port::NativeCounter>(
      std::make_unique<LoopedCounter>(std::move(opening->loop), std::move(job.made)));
}

}  // namespace

Result<std::unique_ptr<port::Records>> client::open_records(const std::string& url) {
  auto opening = read_ids_url(url);
  if (!opening) return opening.error();
  if (!opening->kind->has_records) {
    return Error(Errc::kUnsupported,
                 "the " + std::string(opening->kind->name) + " store keeps no records");
  }
  port::RecordsJob job;
  opening->context.records = &job;
  if (const auto done = opening->ask(); !done) return done.error();
  return checked_records(std::move(job.made), std::move(opening->loop), opening->name_space);
}

Result<std::unique_ptr<port::NativeCounter>> client::open_counter(const std::string& url,
                                                                  const std::string& name) {
  return do_counter_job(url, {.name = name});
}

Result<void> client::create_counter(const std::string& url, const std::string& name,
                                    std::uint64_t first) {
  const auto made = do_counter_job(url, {.name = name, .create_from = first});
  return made ? Result<void>() : made.error();
}

Result<std::vector<ServerStatus>> service_status(std::string_view url) {
  auto job = do_servers_job(url, {});
  if (!job) return job.error();
  return std::move(job->found);
}

Result<std::string> step_down(std::string_view url, std::string_view address) {
  auto job = do_servers_job(
      url, {.wish = port::ServersJob::Wish::kStepDown, .address = std::string(address)});
  if (!job) return job.error();
  return std::move(job->asked);
}

Result<std::vector<ServerMember>> service_members(std::string_view url) {
  auto job = do_servers_job(url, {.wish = port::ServersJob::Wish::kMembers});
  if (!job) return job.error();
  return std::move(job->members);
}

Result<std::string> drain_server(std::string_view url, std::string_view address,
                                 std::chrono::milliseconds patience) {
  auto job = do_servers_job(url, {.wish = port::ServersJob::Wish::kDrain,
                                  .address = std::string(address),
                                  .patience = patience});
  if (!job) return job.error();
  return std::move(job->asked);
}

Result<ChainStatus> chain_status(std::string_view url) { return do_chain_job(url, {}); }

Result<ChainStatus> switch_chain(std::string_view url, std::uint32_t place) {
  return do_chain_job(url, {.switch_to = place});
}

Result<std::optional<StoreSchema>> make_store_schema(std::string_view url) {
  port::SchemaJob job;
  const auto done = do_schema_job(url, job);
  if (!done) return done.error();
  return *done ? std::optional(std::move(job.made)) : std::nullopt;
}

Result<std::optional<std::string>> store_schema_sql(std::string_view url) {
  port::SchemaJob job{.print = true};
  const auto done = do_schema_job(url, job);
  if (!done) return done.error();
  return *done ? std::optional(std::move(job.sql)) : std::nullopt;
}

Result<Client> Client::connect(std::string_view url_text, ClientOptions options) {
  auto core = open_core(url_text, std::move(options), /*schema=*/nullptr);
  if (!core) return core.error();
  return Client(*std::move(core));
}

Result<Lease> Client::acquire(std::string name, Mode mode, AcquireOptions options) const {
  const std::string asked = name;
  return detail::as_lease(
      core_->acquire(std::move(name), mode, std::move(options), /*may_wait=*/true), asked);
}

Result<std::optional<Lease>> Client::try_acquire(std::string name, Mode mode,
                                                 AcquireOptions options) const {
  return detail::as_tried(
      core_->acquire(std::move(name), mode, std::move(options), /*may_wait=*/false));
}

Result<Lease> Client::adopt(std::string_view lease_id, AcquireOptions options) const {
  auto id = primitives::parse_lease_id(lease_id);
  if (!id) return id.error();
  if (options.ttl == std::chrono::milliseconds::zero()) options.ttl = id->ttl;
  return detail::as_lease(core_->adopt(id->name, id->mode, id->id, std::move(options)), id->name);
}

Result<std::optional<LockInfo>> Client::inspect(std::string name) const {
  return core_->administration().inspect(std::move(name));
}

Result<bool> Client::check(std::string name, Token token) const {
  return core_->administration().check(std::move(name), token);
}

Result<std::vector<LockInfo>> Client::list(std::string prefix, std::size_t limit) const {
  return core_->administration().list(std::move(prefix), limit);
}

Result<Watch> Client::watch(std::string prefix,
                            std::function<void(const LockEvent&)> callback) const {
  return core_->administration().watch(std::move(prefix), std::move(callback));
}

Result<void> Client::break_lock(std::string name, Token token, std::string reason) const {
  return core_->administration().break_lock(std::move(name), {token.epoch, token.counter},
                                            std::move(reason));
}

Guarantees Client::guarantees() const { return core_->guarantees(); }

Result<DoctorReport> Client::doctor() const { return core_->administration().doctor(); }

std::string Client::store_url() const { return core_->store_url(); }

Result<void> Client::close(std::chrono::milliseconds deadline) {
  return core_->close(
      std::min<std::chrono::milliseconds>(deadline, session::Core::kLongestRequest));
}

}  // namespace holdfast
