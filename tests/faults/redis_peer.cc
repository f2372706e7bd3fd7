#include "tests/faults/redis_peer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

namespace holdfast::faults {
namespace {

namespace fs = std::filesystem;
using support::chosen_or;
using support::find_program;

std::string installed() {
  return chosen_or(
      "HOLDFAST_REDIS_PEERS",
      chosen_or("XDG_CACHE_HOME", chosen_or("HOME", "") + "/.cache") + "/holdfast/redis-peers");
}

struct Language {
  const char* folder;
  const char* program;
};

const Language& language_of(const std::string& name) {
  static const std::map<std::string, Language> all{{"redisson", {"java", "javac"}},
                                                   {"redis-py", {"python", "python3"}},
                                                   {"redsync", {"go", "go"}},
                                                   {"redislock", {"go", "go"}},
                                                   {"node-redlock", {"node", "node"}}};
  return all.at(name);
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A compiler on a busy machine takes its time.
void compile(const std::vector<std::string>& command, const std::string& log) {
  support::ChildProcess compiler({.arguments = command, .environment = {}, .output = log});
  if (compiler.wait(180s) != 0) {
    throw std::runtime_error(command.front() + " failed: " + content_of(log));
  }
}

// Compiled once for each test program, from the source of this tree.
const std::string& java_classes() {
  static const support::TempFolder folder("java");
  static const std::string classes = [] {
    const std::string jars = installed() + "/java/jars/*";
    compile({"javac", "-cp", jars, "-d", folder.path(), HOLDFAST_PEERS "/RedissonPeer.java"},
            folder.file("log"));
    return folder.path() + ":" + jars;
  }();
  return classes;
}

// The installed one, unless its source has changed since.
const std::string& go_program() {
  static const support::TempFolder folder("go");
  static const std::string program = [] {
    const std::string from = installed() + "/go/";
    const std::string source = HOLDFAST_PEERS "/go_peer.go";
    if (content_of(from + "main.go") == content_of(source)) return from + "peer";
    for (const char* const file : {"go.mod", "go.sum"}) {
      fs::copy(from + file, folder.file(file), fs::copy_options::overwrite_existing);
    }
    fs::copy(source, folder.file("main.go"), fs::copy_options::overwrite_existing);
    compile({"env", "GOPROXY=off", "go", "build", "-C", folder.path(), "-buildvcs=false", "-o",
             "peer", "."},
            folder.file("log"));
    return folder.file("peer");
  }();
  return program;
}

std::vector<std::string> command_of(const std::string& name) {
  const std::string from = installed();
  if (name == "redisson") {
    return {"java",         "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp",
            java_classes(), "RedissonPeer"};
  }
  if (name == "redis-py") {
    return {from + "/python/venv/bin/python", HOLDFAST_PEERS "/redis_py_peer.py"};
  }
  if (name == "node-redlock") {
    return {"env", "NODE_PATH=" + from + "/node/node_modules", "node",
            HOLDFAST_PEERS "/redlock_peer.cjs"};
  }
  return {go_program()};
}

}  // namespace

std::string no_peer(const std::string& name) {
  const Language& language = language_of(name);
  if (!fs::exists(installed() + "/" + language.folder + "/pins")) {
    return "SKIPPED: no " + name + " in " + installed() + ": run scripts/redis-peers";
  }
  if (!find_program(language.program)) {
    return std::string("SKIPPED: no ") + name + ": no program '" + language.program + "'";
  }
  return {};
}

RedisPeer::RedisPeer(const std::string& name, std::uint16_t port, milliseconds lease) {
  const std::string pipe = folder_.file("commands");
  if (::mkfifo(pipe.c_str(), 0600) != 0) throw std::runtime_error("mkfifo " + pipe);
  commands_ = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);  // Both ways: nobody waits for the other.
  if (commands_ < 0) throw std::runtime_error("open " + pipe);
  std::vector<std::string> words = command_of(name);
  words.insert(words.end(),
               {"127.0.0.1:" + std::to_string(port), pipe, std::to_string(lease.count()), name});
  process_ = std::make_unique<support::ChildProcess>(
      support::Command{.arguments = words, .environment = {}, .output = folder_.file("out")});
  if (!eventually([&] { return answer_now(0) == "ready" || !process_->running(); }, kLong) ||
      answer_now(0) != "ready") {
    throw std::runtime_error(name + " does not start: " + said());
  }
}

RedisPeer::~RedisPeer() {
  process_.reset();
  ::close(commands_);
}

int RedisPeer::tell(const std::string& verb, const std::string& key) {
  const std::string line = std::to_string(++last_) + " " + verb + " " + key + "\n";
  if (::write(commands_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw std::runtime_error("the peer cannot be told");
  }
  return last_;
}

bool RedisPeer::answer(int number, milliseconds within) const {
  eventually([&] { return answered(number); }, within);
  const std::string word = answer_now(number);
  if (word == "yes" || word == "no") return word == "yes";
  throw std::runtime_error("the peer has not answered " + std::to_string(number) + ": " +
                           (word.empty() ? said() : word));
}

std::string RedisPeer::answer_now(int number) const {
  const std::string text = "\n" + said();
  const std::string begin = "\n" + std::to_string(number) + " ";
  const std::size_t at = text.find(begin);
  const std::size_t end = at == std::string::npos ? at : text.find('\n', at + 1);
  if (end == std::string::npos) return {};
  return text.substr(at + begin.size(), end - at - begin.size());
}

std::string RedisPeer::said() const { return content_of(folder_.file("out")); }

}  // namespace holdfast::faults
