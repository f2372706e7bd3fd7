// The program `holdfast`.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/help.h"
#include "src/cli/options/config.h"
#include "src/cli/options/option_table.h"
#include "src/cli/options/settings.h"
#include "src/cli/text/json.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

#ifndef HOLDFAST_VERSION
#define HOLDFAST_VERSION "unknown"
#endif

namespace holdfast::cli {
namespace {

// The next opened file, such as a database, would get the number of a closed standard descriptor.
// The stand-in fails like a closed one, because it is opened for the wrong direction.
void fill_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    const int opened = ::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != fd) ::close(opened);
  }
}

// Everybody may read the arguments of every process, and the helpers of `run` have them too.
void hide_secrets(int argc, char** argv) {
  for (int i = 1; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    constexpr std::string_view kOption = "--store=";
    char* url = std::string_view(argv[i]).starts_with(kOption) ? argv[i] + kOption.size() : nullptr;
    // A word of its own: behind --store, or the store of 'doctor' and 'server'.
    const bool names_store = argv[i][0] != '-' && std::strstr(argv[i], "://") != nullptr;
    if (url == nullptr && names_store) url = argv[i];
    if (url == nullptr || !holds_secret(url)) continue;
    const std::size_t size = std::strlen(url);
    const std::string shown = without_secret(url).substr(0, size);
    std::memset(url, ' ', size);
    std::copy(shown.begin(), shown.end(), url);
  }
}

int too_many(const std::string& command, const std::string& argument) {
  return usage_error(command, Error(Errc::kInvalidArgument, one_too_many(argument)));
}

bool asks_for_help(const std::string& argument) { return argument == "--help" || argument == "-h"; }

int dispatch(std::string command, const std::vector<std::string>& arguments) {
  if (command == "--version" || command == "-V") command = "version";
  if (command == "--help" || command == "-h") command = "help";
  const Command* const found = find_command(command);
  if (found != nullptr) return found->run(command, arguments);
  return print_help(command);  // Says that there is none, and names the nearest.
}

}  // namespace

int version_command(const std::vector<std::string>& arguments) {
  bool json = false;
  for (const std::string& argument : arguments) {
    if (asks_for_help(argument)) return print_help("version");
    if (argument != "--json") return too_many("version", argument);
    json = true;
  }
  print(json ? to_line({{"name", "holdfast"}, {"version", HOLDFAST_VERSION}})
             : std::string("holdfast ") + HOLDFAST_VERSION + "\n");
  return flush_output() ? 0 : kExitError;
}

int help_command(const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{"fence", "check"}) return print_help("fence");
  if (arguments == std::vector<std::string>{"store", "init"}) return print_help("store");
  if (arguments.size() == 2 && arguments.front() == "failover") return print_help("failover");
  if (arguments.size() > 1) return too_many("help", arguments[1]);
  if (arguments.empty()) return print_help("");
  for (const char* const list : {"--commands", "--stores", "--options"}) {
    if (arguments.front() == list) return print_words(list);
  }
  if (asks_for_help(arguments.front())) return print_help("help");
  const std::string& command = arguments.front();
  if (command.empty() || command.front() == '-') return too_many("help", command);
  return print_help(arguments.front());
}

}  // namespace holdfast::cli

int main(int argc, char** argv) {
  using namespace holdfast::cli;
  fill_standard_descriptors();
  end_without_memory_plainly();
  std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  hide_secrets(argc, argv);
  if (arguments.empty()) {
    complain("say what to do, for example: holdfast run NAME -- COMMAND");
    return print_help(""), kExitError;
  }
  if (arguments.front().empty()) {
    complain("the command is empty: 'holdfast help' lists them");
    return kExitError;
  }
  const std::string command = arguments.front();
  arguments.erase(arguments.begin());
  try {
    return dispatch(command, arguments);
  } catch (const std::exception& error) {
    complain_of(error);
    return kExitError;
  }
}
