#include "lab/rig/commands.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <stdexcept>

#include "tests/support/child_process.h"
#include "tests/support/temp_folder.h"

#include "lab/scenario/words.h"

namespace holdfast::lab {
namespace {

std::string variable_of(const std::string& program) {
  std::string name = "HOLDFAST_";
  for (const char letter : program.substr(program.rfind('/') + 1)) {
    const auto byte = static_cast<unsigned char>(letter);
    name += std::isalnum(byte) != 0 ? static_cast<char>(std::toupper(byte)) : '_';
  }
  return name;
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// "Server v=7.0.15 sha=0": 7.0.15.
std::string first_version(const std::string& said) {
  for (std::size_t at = 0; at < said.size(); ++at) {
    if (!is_digit(said[at])) continue;
    std::size_t end = at;
    while (end < said.size() &&
           (is_digit(said[end]) ||
            (said[end] == '.' && end + 1 < said.size() && is_digit(said[end + 1])))) {
      ++end;
    }
    std::string version = said.substr(at, end - at);
    if (version.find('.') != version.npos) return version;
    at = end;
  }
  return {};
}

constexpr milliseconds kBetweenLooksAtIt{20};

}  // namespace

std::string tail_of(const std::string& file, std::size_t most) {
  std::ifstream stream(file, std::ios::ate | std::ios::binary);
  const std::streamoff size = stream ? static_cast<std::streamoff>(stream.tellg()) : 0;
  const std::streamoff begin =
      std::max<std::streamoff>(size - static_cast<std::streamoff>(most), 0);
  std::string text(static_cast<std::size_t>(std::max<std::streamoff>(size - begin, 0)), '\0');
  stream.seekg(begin);
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return (begin > 0 ? "..." : "") + text;
}

std::string run_command(const Words& command, milliseconds limit,
                        const std::function<void()>& waiting) {
  const support::TempFolder folder("run");
  const std::string output = folder.file("out");
  support::ChildProcess child({.arguments = command, .environment = {}, .output = output});
  const auto until = std::chrono::steady_clock::now() + limit;
  std::optional<int> status;
  while (!(status = child.wait(kBetweenLooksAtIt))) {
    if (waiting) waiting();
    if (std::chrono::steady_clock::now() >= until) break;
  }
  if (status == 0) return tail_of(output);
  if (!status) child.kill9();
  std::string line;
  for (const std::string& word : command) line += (line.empty() ? "" : " ") + word;
  throw CommandFailed(line +
                      (status ? " failed (" + std::to_string(*status) + "): "
                              : " did not end within " + std::to_string(limit.count()) + " ms: ") +
                      tail_of(output));
}

Words found_command(const Topology& topology, const Words& command) {
  const std::string& program = command.at(0);
  const std::string variable = variable_of(program);
  const char* chosen = std::getenv(variable.c_str());
  Words words = chosen == nullptr || *chosen == '\0'        ? Words{program}
                : support::find_program(chosen).has_value() ? Words{chosen}
                                                            : split_words(chosen);
  if (words.empty() || !support::find_program(words.front())) {
    throw std::runtime_error((words.empty() ? program : words.front()) + " of the topology '" +
                             topology.name + "' is not installed: there is no such program in " +
                             "PATH (" + variable + " may name another)");
  }
  words.insert(words.end(), command.begin() + 1, command.end());
  return words;
}

void find_programs(const Topology& topology) {
  std::vector<const Words*> commands = {&topology.version};
  if (topology.server) {
    commands.insert(commands.end(),
                    {&topology.server->command, &topology.server->ready, &topology.server->leader,
                     &topology.server->save, &topology.server->move, &topology.server->moved,
                     &topology.server->fill, &topology.server->free});
  }
  if (topology.member) {
    commands.insert(commands.end(),
                    {&topology.member->command, &topology.member->ready, &topology.member->leader});
  }
  if (topology.replica) {
    commands.insert(commands.end(), {&topology.replica->follow, &topology.replica->caught_up,
                                     &topology.replica->promote});
  }
  for (const Words* command : commands) {
    if (!command->empty()) found_command(topology, *command);
  }
}

std::string version_of(const Topology& topology) {
  if (!topology.version.empty()) {
    return first_version(
        run_command(found_command(topology, topology.version), support::kPatience));
  }
  if (topology.version_function.empty()) return {};
  void* symbol = ::dlsym(RTLD_DEFAULT, topology.version_function.c_str());
  // A build without that library cannot use the store, and says so elsewhere.
  if (symbol == nullptr) return {};
  const char* said = reinterpret_cast<const char* (*)()>(symbol)();
  return said == nullptr ? "" : first_version(said);
}

}  // namespace holdfast::lab
