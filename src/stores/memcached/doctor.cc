#include "src/stores/memcached/doctor.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

#include "src/port/examination.h"

namespace holdfast::stores::memcached {
namespace {

using port::Findings;

// The value of one line "STAT name value"; empty: there is none.
std::string_view stat(std::string_view text, std::string_view name) {
  const std::string begin = "STAT " + std::string(name) + ' ';
  const std::size_t at = text.find(begin);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = text.substr(at + begin.size());
  return rest.substr(0, rest.find("\r\n"));
}

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// {1, 6, 18} of "1.6.18".
std::array<std::uint64_t, 3> version_of(std::string_view text) {
  std::array<std::uint64_t, 3> version{};
  for (std::uint64_t& part : version) {
    part = number(text);
    text.remove_prefix(std::min(text.find('.'), text.size()));
    if (text.empty()) break;
    text.remove_prefix(1);
  }
  return version;
}

// The first one that was tried. Older ones write the length of a value in another way.
constexpr std::array<std::uint64_t, 3> kLeast = {1, 6, 10};

void look_at_losses(Findings& findings, std::string_view stats, std::string_view settings) {
  const std::uint64_t evictions = number(stat(stats, "evictions"));
  const std::uint64_t limit = number(stat(stats, "limit_maxbytes")) >> 20U;
  const std::uint64_t used = number(stat(stats, "bytes")) >> 20U;
  const std::string memory =
      std::to_string(used) + " MiB of " + std::to_string(limit) + " MiB are in use";
  if (stat(settings, "evictions") == "off") {
    port::add(findings, Severity::kWarning, "evictions",
              "the server runs with -M: when its memory is full, locks cannot be taken, and one "
              "that is renewed then is dropped; " + memory,
              "run it without -M, or with more memory (-m)");
  } else if (evictions > 0) {
    port::add(findings, Severity::kWarning, "evictions",
              "the server has evicted " + std::to_string(evictions) +
                  " items since its start, and a lock that is evicted can be held twice; " + memory,
              "give it more memory (-m), or use a server for locks alone");
  } else {
    port::add(findings, Severity::kOk, "evictions", "none so far; " + memory);
  }
  const std::uint64_t uptime = number(stat(stats, "uptime"));
  const std::string since = "the server has run for " + std::to_string(uptime) + " s";
  if (uptime < 300) {
    port::add(findings, Severity::kWarning, "uptime",
              since + ": locks from before were forgotten, and their holders may still run",
              "see what restarts it");
  } else {
    port::add(findings, Severity::kOk, "uptime", since);
  }
}

class Examiner : public port::Examination, public std::enable_shared_from_this<Examiner> {
 public:
  Examiner(Engine& engine, base::BootInstant deadline, port::Done<Findings> done)
      : Examination(std::move(done)), engine_(engine), deadline_(deadline) {}

  void start() {
    engine_.ask("stats\r\n", deadline_, [self = shared_from_this()](const Result<Reply>& stats) {
      if (!stats) return self->give_up(stats.error());
      self->stats_ = stats->text;
      self->engine_.ask("stats settings\r\n", self->deadline_,
                        [self](const Result<Reply>& settings) {
                          if (!settings) return self->give_up(settings.error());
                          self->conclude(settings->text);
                        });
    });
  }

 private:
  void conclude(std::string_view settings) {
    for (Finding& finding : findings_of(stats_, settings)) findings_.push_back(std::move(finding));
    port::check_clock_rate(findings_);
    finish();
  }

  Engine& engine_;
  const base::BootInstant deadline_;
  std::string stats_;
};

}  // namespace

Result<void> check_server(const Reply& version, const Reply& settings, const std::string& address) {
  for (const Reply* reply : {&version, &settings}) {
    if (reply->kind != Reply::Kind::kRefused) continue;
    const bool login = reply->text.find("unauth") != std::string::npos;
    return Error(login ? Errc::kPermissionDenied : Errc::kUnavailable,
                 address + ": " + reply->text +
                     (login ? ": the server wants a log-in, which Holdfast does not support: see "
                              "docs/stores/memcached.md"
                            : ""));
  }
  if (version_of(version.text) < kLeast) {
    return Error(Errc::kVersionMismatch, address + ": memcached " + version.text +
                                             " is too old: Holdfast needs 1.6.10 or later");
  }
  if (stat(settings.text, "cas_enabled") == "no") {
    return Error(Errc::kInvalidArgument,
                 address + ": the server runs with -C, without cas numbers: start it without");
  }
  return {};
}

std::vector<Finding> findings_of(std::string_view stats, std::string_view settings) {
  Findings findings;
  port::add(findings, Severity::kOk, "server", "memcached " + std::string(stat(stats, "version")));
  port::add(findings, Severity::kWarning, "memory only",
            "a restart, a flush or an eviction forgets locks: two may then believe they hold one, "
            "for one ttl at most",
            "use it to save work; what must not happen twice needs another store");
  look_at_losses(findings, stats, settings);
  const std::uint64_t item = number(stat(settings, "item_size_max"));
  if (item != 0 && item < 1024 * 1024) {
    port::add(findings, Severity::kProblem, "item size",
              "items have at most " + std::to_string(item) +
                  " bytes: a lock with a long queue is dropped by the server",
              "run it with -I 1m or more");
  }
  port::add(findings, Severity::kOk, "transport",
            "the connection is not encrypted, and nobody logs in",
            "restrict who reaches the server's port");
  return findings;
}

void examine(Engine& engine, base::BootInstant deadline, port::Done<std::vector<Finding>> done) {
  std::make_shared<Examiner>(engine, deadline, std::move(done))->start();
}

}  // namespace holdfast::stores::memcached
