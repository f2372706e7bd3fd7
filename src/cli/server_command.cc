// `server`: a lock service's journal in the hands of an operator.

#include <termios.h>
#include <unistd.h>

#include <iostream>
#include <string>

#include "holdfast/server_tools.h"
#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/text/json.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

Result<JournalReport> perform(const ServerToolOptions& options) {
  if (options.verb == "backup") return back_up_journal(options.from, options.to);
  if (options.verb == "restore") return restore_journal(options.from, options.to);
  return verify_journal(options.from);
}

std::string sentence(const ServerToolOptions& options, const JournalReport& report) {
  std::string text = options.verb == "verify"   ? "whole: " + printable(options.from)
                     : options.verb == "backup" ? "backed up to " + printable(options.to)
                                                : "restored to " + printable(options.to);
  text += "\n  journal " + report.id + ", term " + printable(report.term) + ", batch " +
          std::to_string(report.batches) + "\n  locks: " + std::to_string(report.locks) +
          ", holders: " + std::to_string(report.holders) +
          ", waiters: " + std::to_string(report.waiters) + "\n";
  if (options.verb == "restore") {
    text +=
        "  a server on it grants nothing for 24 h. When all clients are stopped, start it with "
        "--clients-stopped\n";
  }
  return text;
}

// The first line of stdin. On a terminal it is asked for, and not shown.
Result<std::string> read_password() {
  const bool asks = ::isatty(STDIN_FILENO) == 1;
  termios before{};
  if (asks && ::tcgetattr(STDIN_FILENO, &before) == 0) {
    termios silent = before;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    std::cerr << "password: " << std::flush;
  }
  std::string line;
  const bool read = static_cast<bool>(std::getline(std::cin, line));
  if (asks) {
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    std::cerr << '\n';
  }
  if (!read) return Error(Errc::kInvalidArgument, "no password came on stdin");
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

int hash_from_stdin(const ServerToolOptions& options) {
  const auto password = read_password();
  const auto hash = password ? hash_password(*password) : password;
  if (!hash) {
    complain("server password: " + printable(hash.error().message()));
    return kExitError;
  }
  return answer(options.common, {{"hash", *hash}}, *hash + "\n");
}

}  // namespace

int server_command(const ServerToolOptions& options) {
  set_log_format(options.common.log_format.value_or(LogFormat::kText));
  if (options.verb == "password") return hash_from_stdin(options);
  const auto report = perform(options);
  if (!report) {
    complain("server " + options.verb + ": " + printable(report.error().message()));
    return kExitError;
  }
  return answer(options.common,
                {{"journal_id", report->id},
                 {"term", report->term},
                 {"batches", report->batches},
                 {"bytes", report->bytes},
                 {"locks", report->locks},
                 {"holders", report->holders},
                 {"waiters", report->waiters}},
                sentence(options, *report));
}

}  // namespace holdfast::cli
