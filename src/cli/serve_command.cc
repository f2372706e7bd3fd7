// `serve`: a lock service, until a signal ends it.

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "holdfast/server.h"
#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/options/config.h"
#include "src/cli/options/settings.h"
#include "src/cli/process/fd.h"
#include "src/cli/process/signals.h"
#include "src/cli/text/json.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

Result<std::string> journal_of(const ServeOptions& options) {
  if (options.journal) return *options.journal;
  std::string folder;
  if (options.data) {
    folder = *options.data;
    if (folder.empty()) return Error(Errc::kInvalidArgument, "--data names no folder");
  } else {
    auto standard = default_server_folder();
    if (!standard) return standard.error();
    folder = *std::move(standard);
  }
  std::error_code error;
  const auto whole = std::filesystem::absolute(folder, error);
  return "sqlite:" + (error ? folder : whole.lexically_normal().string());
}

// Each client has four connections.
void allow_many_connections() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

// Told by a thread of the server, read by the one that waits: stderr may block.
class Mailbox {
 public:
  void fail(const Error& why) {
    const std::lock_guard lock(mutex_);
    failure_ = why;
    wake();
  }
  void warn(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (warnings_.size() < kMost) warnings_.push_back(what);
    wake();
  }
  void drain() {
    const std::lock_guard lock(mutex_);
    drained_ = true;
    wake();
  }
  void take_lead(const ServerLead& lead) {
    const std::lock_guard lock(mutex_);
    lead_ = lead;
    wake();
  }

  int fd() const { return event_.get(); }
  std::vector<std::string> take_warnings() {
    std::uint64_t count = 0;
    static_cast<void>(::read(event_.get(), &count, sizeof count));
    const std::lock_guard lock(mutex_);
    return std::exchange(warnings_, {});
  }
  std::optional<Error> failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  bool drained() {
    const std::lock_guard lock(mutex_);
    return drained_;
  }
  std::optional<ServerLead> new_lead() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lead_, std::nullopt);
  }

 private:
  static constexpr std::size_t kMost = 100;  // While nobody reads stderr.

  void wake() {
    const std::uint64_t one = 1;
    static_cast<void>(::write(event_.get(), &one, sizeof one));
  }

  const Fd event_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex_;
  std::vector<std::string> warnings_;
  std::optional<Error> failure_;
  bool drained_ = false;            // An operator asks the server to stop.
  std::optional<ServerLead> lead_;  // The newest: the terms between are over.
};

// A word about which journal it is: a new one where another was expected is a loss of all locks.
std::string journal_line(const ServerLead& lead, const std::string& place) {
  const ServerStart& found = lead.found;
  std::string where = "journal: " + printable(place);
  if (!lead.leads) return where;
  if (place == "memory:") return where + " (nothing survives a restart)";
  if (found.new_journal) return where + " (new)";
  const std::string locks = found.locks == 1 ? "1 lock" : std::to_string(found.locks) + " locks";
  return where + " (" + locks + (lead.shards == 1 ? ", term " + found.term : "") + ")";
}

// As clients write it: with the user's place, and with TLS the authority's.
std::string client_url(const ServeOptions& options, std::string url) {
  if (options.users) url.insert(url.find("//") + 2, "USER@");
  return url;
}

std::string access_line(const ServeOptions& options) {
  if (options.users) return "users: " + printable(*options.users);
  return "users: none; everybody on this host may take and break locks (--users FILE)";
}

std::string http_line(const ServeOptions& options, const Server& server) {
  if (server.http_address().empty()) return {};
  return "  http: " + std::string(options.tls_cert ? "https://" : "http://") +
         server.http_address() + "\n";
}

std::string shards_line(const ServerLead& lead) {
  if (lead.shards == 1) return {};
  return "  shards: leads " + std::to_string(lead.leading) + " of " + std::to_string(lead.shards) +
         "\n";
}

bool say_standby(const ServeOptions& options, const Server& server, const ServerLead& lead) {
  if (options.common.json) {
    print(to_line({{"event", "standing_by"},
                   {"url", server.url()},
                   {"address", server.address()},
                   {"http", server.http_address()},
                   {"journal", server.place()},
                   {"leader", lead.leader},
                   {"pid", ::getpid()}}));
  } else if (!options.common.quiet) {
    print("standing by at " + server.url() + ": " +
          (lead.leader.empty() ? "no server leads yet" : printable(lead.leader) + " leads") +
          "\n  journal: " + printable(server.place()) + "\n" + http_line(options, server) +
          "  clients name all servers: " + client_url(options, server.url()) + ",HOST:PORT,...\n");
  }
  return flush_output();
}

bool say_where(const ServeOptions& options, const Server& server, const ServerLead& lead) {
  if (!lead.leads && (lead.shards == 1 || options.common.json)) {
    return say_standby(options, server, lead);
  }
  const ServerStart& found = lead.found;
  if (options.common.json) {
    print(to_line({{"event", "serving"},
                   {"url", server.url()},
                   {"address", server.address()},
                   {"http", server.http_address()},
                   {"journal", server.place()},
                   {"journal_id", server.journal_id()},
                   {"new_journal", found.new_journal},
                   {"term", found.term},
                   {"locks", found.locks},
                   {"restored", found.restored},
                   {"quiet_s", found.quiet.count()},
                   {"shards", lead.shards},
                   {"leading", lead.leading},
                   {"pid", ::getpid()}}));
  } else if (!options.common.quiet) {
    print("serving " + server.url() + "\n  " + journal_line(lead, server.place()) + "\n" +
          shards_line(lead) + "  " + access_line(options) + "\n" + http_line(options, server) +
          "  to use it: holdfast run --store " + client_url(options, server.url()) +
          " NAME -- COMMAND\n");
  }
  if (!found.restored.empty()) {
    const auto whole = std::chrono::ceil<std::chrono::minutes>(found.quiet);
    const auto hours = std::chrono::floor<std::chrono::hours>(whole);
    const std::chrono::minutes minutes = whole - hours;
    const std::string wait =
        options.clients_stopped
            ? "it grants at once, because --clients-stopped says that no client runs any more"
        : found.quiet.count() == 0
            ? "it grants at once, because 24 h have passed since that was found"
            : "it grants nothing for " + std::to_string(hours.count()) + " h " +
                  std::to_string(minutes.count()) +
                  " min, because clients may count on grants that it does not know. When all "
                  "clients are stopped, start it with --clients-stopped";
    complain((lead.shards > 1 ? "a part of the journal in " : "the journal in ") +
             printable(server.place()) + " is a copy that was put back (" +
             printable(found.restored) + "): " + wait);
  }
  return flush_output();
}

// With several shards the rest was told at the start.
bool say_change(const ServeOptions& options, const Server& server, const ServerLead& lead) {
  if (lead.shards == 1 || options.common.json) return say_where(options, server, lead);
  if (!options.common.quiet) {
    print("leads " + std::to_string(lead.leading) + " of " + std::to_string(lead.shards) +
          " shards\n");
  }
  return flush_output();
}

// For people. A reader who has gone does not change how the server ends.
void say_end(const ServeOptions& options, const std::string& line) {
  if (options.common.json || options.common.quiet) return;
  print(line + "\n");
  static_cast<void>(flush_output());
}

bool has_files(const ServeOptions& options) { return options.users || options.tls_cert; }

void reload(const ServeOptions& options, Server& server) {
  if (const auto done = server.reload(); !done) {
    return complain(
        "nothing was read again, and the users and the certificate are those of "
        "before: " +
        printable(done.error().message()));
  }
  if (options.common.json) {
    print(to_line({{"event", "reloaded"}}));
  } else if (!options.common.quiet) {
    print("the users and the certificate were read again\n");
  }
  static_cast<void>(flush_output());
}

struct ServeEnd {
  Json line;           // The last one of --json.
  std::string reason;  // For people.
};

// Why the program ends; nullopt: the server has failed.
std::optional<ServeEnd> wait_for_end(const ServeOptions& options, Server& server,
                                     const Signals& signals, Mailbox& mailbox) {
  while (true) {
    for (const std::string& each : mailbox.take_warnings()) complain(printable(each));
    if (const auto lead = mailbox.new_lead()) static_cast<void>(say_change(options, server, *lead));
    if (mailbox.failure()) return std::nullopt;
    if (mailbox.drained()) {
      return ServeEnd{{{"event", "stopped"}, {"drained", true}}, "an operator asks for it"};
    }
    const auto signal = signals.next_ending();
    if (signal && (*signal != SIGHUP || !has_files(options))) {
      const std::string name = signal_name(*signal);
      return ServeEnd{{{"event", "stopped"}, {"signal", name}}, "SIG" + name};
    }
    if (signal) {
      reload(options, server);
      continue;
    }
    pollfd entries[] = {{signals.fd(), POLLIN, 0}, {mailbox.fd(), POLLIN, 0}};
    if (::poll(entries, 2, -1) < 0 && errno != EINTR) return std::nullopt;
  }
}

}  // namespace

int serve_command(const ServeOptions& given) {
  set_log_format(given.common.log_format.value_or(LogFormat::kText));
  ServeOptions options = given;
  Config config;
  if (const auto read = load_config(options.common.config, config); !read) {
    return usage_error("serve", read.error());
  }
  fill_serve(options, config);
  set_log_format(options.common.log_format.value_or(LogFormat::kText));
  if (const auto fine = check_serve(options); !fine) return usage_error("serve", fine.error());
  const auto journal = journal_of(options);
  if (!journal) return usage_error("serve", journal.error());
  // `nohup` has it ignored, and then a user whose line was deleted could still log in.
  if (has_files(options)) std::signal(SIGHUP, SIG_DFL);
  const Signals signals;
  allow_many_connections();
  Mailbox mailbox;
  ServerOptions wanted;
  if (options.listen) wanted.listen = *options.listen;
  wanted.http = options.http.value_or("");
  wanted.http_hosts = options.http_hosts.value_or("");
  wanted.journal = *journal;
  wanted.shards = static_cast<std::uint32_t>(options.shards.value_or(0));
  wanted.connection_rate = static_cast<std::uint32_t>(options.connection_rate.value_or(0));
  wanted.advertise = options.advertise.value_or("");
  wanted.users = options.users.value_or("");
  wanted.tls_cert = options.tls_cert.value_or("");
  wanted.tls_key = options.tls_key.value_or("");
  wanted.tls_ca = options.tls_ca.value_or("");
  wanted.plaintext = options.plaintext;
  wanted.on_lead = [&mailbox](const ServerLead& lead) { mailbox.take_lead(lead); };
  wanted.clients_stopped = options.clients_stopped;
  wanted.on_stopped = [&mailbox](const Error& reason) { mailbox.fail(reason); };
  wanted.on_drain = [&mailbox] { mailbox.drain(); };
  wanted.on_warning = [&mailbox](const std::string& what) { mailbox.warn(what); };
  auto server = Server::start(std::move(wanted));
  if (!server) {
    complain("serve: " + printable(server.error().message()));
    return kExitError;
  }
  if (!say_where(options, *server, server->lead())) return kExitError;
  const auto end = wait_for_end(options, *server, signals, mailbox);
  if (end) {
    say_end(options, "stopping (" + end->reason +
                         "): it takes no more requests, and answers those under way");
  }
  server->stop();
  if (end) {
    say_end(options, "stopped");
    if (!options.common.json) return 0;
    print(to_line(end->line));
    return flush_output() ? 0 : kExitError;
  }
  const auto failure = mailbox.failure();
  complain("the lock service has stopped: " +
           (failure ? printable(failure->message()) : std::string("poll() failed")));
  return kExitError;
}

}  // namespace holdfast::cli
