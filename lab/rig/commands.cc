#include "lab/rig/commands.h"

#include <dlfcn.h>

#include <cctype>
#include <cstdlib>
#include <stdexcept>

#include "tests/support/child_process.h"

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
    const std::string version = said.substr(at, end - at);
    if (version.find('.') != version.npos) return version;
    at = end;
  }
  return {};
}

}  // namespace

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
    commands.insert(commands.end(), {&topology.server->command, &topology.server->ready,
                                     &topology.server->leader, &topology.server->save});
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
    return first_version(support::run(found_command(topology, topology.version)));
  }
  if (topology.version_function.empty()) return {};
  void* symbol = ::dlsym(RTLD_DEFAULT, topology.version_function.c_str());
  // A build without that library runs nothing on the store anyway, and says so.
  if (symbol == nullptr) return {};
  const char* said = reinterpret_cast<const char* (*)()>(symbol)();
  return said == nullptr ? "" : first_version(said);
}

}  // namespace holdfast::lab
