// `fence check`: the token of a script, shown to a record in a file.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "holdfast/fence/file.h"
#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/options/config.h"
#include "src/cli/options/settings.h"
#include "src/cli/options/values.h"
#include "src/cli/process/exec_environment.h"
#include "src/cli/text/json.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

using fence::FileGuard;

Result<Token> token_of(const FenceOptions& options) {
  const char* inherited = std::getenv("HOLDFAST_TOKEN");
  if (!options.token && (inherited == nullptr || *inherited == '\0')) {
    return invalid(
        "there is no token: give it as --token T or in HOLDFAST_TOKEN, as 'holdfast run' does");
  }
  const std::string text = options.token.value_or(inherited == nullptr ? "" : inherited);
  if (const auto token = Token::parse(text)) return *token;
  return invalid((options.token ? "--token: " : "HOLDFAST_TOKEN: ") + in_quotes(text) +
                 " is not a token");
}

// HOLDFAST_MODE belongs to the token in HOLDFAST_TOKEN, not to another one.
Result<Mode> mode_of(const FenceOptions& options, const Token& token) {
  if (options.mode) return *options.mode;
  const char* inherited = std::getenv("HOLDFAST_MODE");
  if (inherited == nullptr || *inherited == '\0') return Mode::exclusive();
  const char* about = std::getenv("HOLDFAST_TOKEN");
  if (Token::parse(about == nullptr ? "" : about) != token) return Mode::exclusive();
  auto mode = read_mode(inherited);
  if (!mode) return invalid("HOLDFAST_MODE: " + mode.error().message());
  return mode;
}

// A named folder must exist. A folder created by a typing error would have no records, and accept
// every token.
Result<std::string> file_of(const FenceOptions& options) {
  if (options.file) return *options.file;
  if (options.state) return FileGuard::path_in(*options.state, options.resource);
  auto folder = default_fence_folder();
  if (!folder) return folder.error();
  std::error_code problem;
  std::filesystem::create_directories(*folder, problem);
  return FileGuard::path_in(*folder, options.resource);
}

// Replaces this process by the command, which inherits the lock's descriptor. Returns on failure.
int become_under(const FileGuard& guard, const std::vector<std::string>& command) {
  ::fcntl(guard.descriptor(), F_SETFD, 0);
  become(command);
  const int why = errno;
  complain("cannot run " + in_quotes(command.front()) + ": " + std::strerror(why));
  return why == ENOENT ? kExitNotFound : kExitCannotRun;
}

bool report(const FenceOptions& options, const Token& token, const Mode& mode,
            const std::string& file, bool accepted) {
  if (options.common.json) {
    const auto newest = FileGuard::recorded(file, options.resource);
    Json out;
    out["resource"] = options.resource;
    out["token"] = token.to_string();
    out["mode"] = mode_text(mode);
    out["accepted"] = accepted;
    out["newest"] = newest && *newest ? Json((*newest)->to_string()) : Json(nullptr);
    out["file"] = file;
    print(to_line(out));
  } else if (accepted && !options.common.quiet) {
    print("accepted " + printable(options.resource) + " token " + token.to_string() + "\n");
  }
  return flush_output();
}

// Whether the store knows a holder of the lock with this token.
int check_in_store(const FenceOptions& options, const Token& token) {
  return with_client(options.common, [&](Client& client, const Settings& settings) {
    const auto current = client.check(options.resource, token);
    if (!current) return fail(current.error(), settings.shown_store);
    const std::string name = printable(options.resource);
    if (!*current && !options.common.json) {
      complain("no holder of " + in_quotes(options.resource) + " has the token " +
               token.to_string() + ": that hold has ended, so stop ('holdfast inspect' tells who " +
               "holds it)");
    }
    Json out;
    out["name"] = options.resource;
    out["token"] = token.to_string();
    out["current"] = *current;
    if (options.common.json) print(to_line(out));
    if (*current && !options.common.quiet && !options.common.json) {
      print("current " + name + " token " + token.to_string() + "\n");
    }
    if (!flush_output()) return kExitError;
    return *current ? 0 : kExitLost;
  });
}

}  // namespace

int fence_command(const FenceOptions& options) {
  const auto token = token_of(options);
  if (!token) return usage_error("fence", token.error());
  if (options.common.store) return check_in_store(options, *token);
  const auto mode = mode_of(options, *token);
  if (!mode) return usage_error("fence", mode.error());
  const auto file = file_of(options);
  if (!file) return usage_error("fence", file.error());
  const auto guard = FileGuard::enter(*file, options.resource, *token, *mode, options.wait);
  if (!guard) {
    const bool refused = guard.error().code() == Errc::kLost;
    if (refused && !report(options, *token, *mode, *file, false)) return kExitError;
    return fail(guard.error(), "");
  }
  if (!options.command.empty()) return become_under(*guard, options.command);
  return report(options, *token, *mode, *file, true) ? 0 : kExitError;
}

}  // namespace holdfast::cli
