// `serve`: a lock service, until a signal ends it.

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

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

// Told by a thread of the server, read by the one that waits.
struct Failure {
  Fd event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::optional<Error> reason;  // Set before the event.

  void tell(const Error& why) {
    reason = why;
    const std::uint64_t one = 1;
    static_cast<void>(::write(event.get(), &one, sizeof one));
  }
};

// The signal that ends the program; nullopt: the server has failed.
std::optional<int> wait_for_end(const Signals& signals, const Failure& failure) {
  while (true) {
    if (const auto signal = signals.next_ending()) return signal;
    pollfd entries[] = {{signals.fd(), POLLIN, 0}, {failure.event.get(), POLLIN, 0}};
    if (::poll(entries, 2, -1) < 0 && errno != EINTR) return std::nullopt;
    if (entries[1].revents != 0) return std::nullopt;
  }
}

bool say_where(const ServeOptions& options, const Server& server) {
  if (options.common.json) {
    print(to_line({{"event", "serving"},
                   {"url", server.url()},
                   {"address", server.address()},
                   {"journal", server.place()},
                   {"journal_id", server.journal_id()},
                   {"pid", ::getpid()}}));
  } else if (!options.common.quiet) {
    print("serving " + server.url() + "\n  journal: " + printable(server.place()) +
          "\n  to use it: holdfast run --store " + server.url() + " NAME -- COMMAND\n");
  }
  return flush_output();
}

}  // namespace

int serve_command(const ServeOptions& options) {
  set_log_format(options.common.log_format.value_or(LogFormat::kText));
  const auto journal = journal_of(options);
  if (!journal) return usage_error("serve", journal.error());
  const Signals signals;
  allow_many_connections();
  Failure failure;
  ServerOptions wanted;
  wanted.listen = options.listen;
  wanted.journal = *journal;
  wanted.on_stopped = [&failure](const Error& reason) { failure.tell(reason); };
  auto server = Server::start(std::move(wanted));
  if (!server) {
    complain("serve: " + printable(server.error().message()));
    return kExitError;
  }
  if (!say_where(options, *server)) return kExitError;
  const auto signal = wait_for_end(signals, failure);
  server->stop();
  if (signal) {
    if (options.common.json) {
      print(to_line({{"event", "stopped"}, {"signal", signal_name(*signal)}}));
    }
    return flush_output() ? 0 : kExitError;
  }
  complain("the lock service has stopped: " +
           (failure.reason ? printable(failure.reason->message()) : std::string("poll() failed")));
  return kExitError;
}

}  // namespace holdfast::cli
