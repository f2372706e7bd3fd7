#include "src/cli/process/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "src/cli/process/fd.h"

namespace holdfast::cli {
namespace {

struct Stat {
  Process process;
  char state = '?';
};

std::optional<Stat> read_stat(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  char text[1024];
  const ssize_t n = ::read(file.get(), text, sizeof text - 1);
  if (n <= 0) return std::nullopt;
  text[n] = '\0';
  // The program's name may hold anything, so the fields are counted from its last parenthesis.
  const char* rest = std::strrchr(text, ')');
  if (rest == nullptr || rest[1] == '\0') return std::nullopt;
  Stat stat;
  stat.process.pid = pid;
  stat.state = rest[2];
  int field = 3;
  for (const char* at = rest + 2; *at != '\0'; ++at) {
    if (*at != ' ') continue;
    ++field;
    const auto number = [at] { return static_cast<pid_t>(std::strtol(at, nullptr, 10)); };
    if (field == 4) stat.process.parent = number();
    if (field == 5) stat.process.group = number();
    if (field == 6) stat.process.session = number();
    if (field == 22) {
      stat.process.start = std::strtoull(at, nullptr, 10);
      return stat;
    }
  }
  return std::nullopt;
}

std::vector<Stat> all_stats() {
  std::vector<Stat> all;
  DIR* directory = ::opendir("/proc");
  if (directory == nullptr) return all;
  while (const dirent* entry = ::readdir(directory)) {
    const auto pid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (pid <= 0) continue;
    const auto stat = read_stat(pid);
    if (stat && stat->state != 'Z' && stat->state != 'X') all.push_back(*stat);
  }
  ::closedir(directory);
  return all;
}

// The kernel's own list of a process' children saves reading the whole of /proc; nullopt: this
// kernel has none.
std::optional<std::vector<pid_t>> children_of(pid_t pid) {
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  DIR* directory = ::opendir(tasks.c_str());
  // It is gone, or descriptors are short: then the next pass finds it.
  if (directory == nullptr) return std::vector<pid_t>();
  std::vector<pid_t> children;
  bool readable = true;
  while (const dirent* entry = ::readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    const std::string path = tasks + "/" + entry->d_name + "/children";
    FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) {
      readable = readable && errno != ENOENT;
      readable = readable ||
                 ::access(("/proc/self/task/" + std::to_string(::gettid()) + "/children").c_str(),
                          R_OK) == 0;
      continue;
    }
    long child = 0;
    while (std::fscanf(file, "%ld", &child) == 1) children.push_back(static_cast<pid_t>(child));
    std::fclose(file);
  }
  ::closedir(directory);
  if (!readable) return std::nullopt;
  return children;
}

std::vector<Process> by_scan(pid_t root) {
  std::multimap<pid_t, Process> by_parent;
  for (const Stat& stat : all_stats()) by_parent.emplace(stat.process.parent, stat.process);
  std::vector<Process> found;
  std::vector<pid_t> open{root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    const auto [begin, end] = by_parent.equal_range(parent);
    for (auto it = begin; it != end; ++it) {
      found.push_back(it->second);
      open.push_back(it->first == it->second.pid ? 0 : it->second.pid);
    }
    by_parent.erase(parent);
  }
  return found;
}

int signal_pinned(const Process& target, int signal) {
  const Fd pin(static_cast<int>(::syscall(SYS_pidfd_open, target.pid, 0)));
  // Without a pin the start time alone guards against a reused id.
  if (!pin && errno == ESRCH) return ESRCH;
  const auto start = start_of(target.pid);
  if (!start && is_shortage(errno)) return errno;
  if (start != target.start) return ESRCH;
  const long sent = pin ? ::syscall(SYS_pidfd_send_signal, pin.get(), signal, nullptr, 0)
                        : ::kill(target.pid, signal);
  return sent == 0 ? 0 : errno;
}

}  // namespace

std::vector<Process> descendants_of(pid_t root, Nanos until) {
  std::vector<Process> found;
  std::set<pid_t> seen{root};
  std::vector<pid_t> open{root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    const auto children = children_of(parent);
    if (!children) return by_scan(root);
    for (const pid_t child : *children) {
      if (!seen.insert(child).second) continue;
      if (until != Nanos::max() && boottime_now() >= until) return found;
      const auto stat = read_stat(child);
      if (!stat) continue;
      if (stat->state != 'Z' && stat->state != 'X') found.push_back(stat->process);
      open.push_back(child);
    }
  }
  return found;
}

bool proc_is_ours() {
  char self[32];
  const ssize_t n = ::readlink("/proc/self", self, sizeof self);
  return n > 0 && std::string(self, static_cast<std::size_t>(n)) == std::to_string(::getpid()) &&
         start_of(::getpid()).has_value();
}

std::optional<pid_t> parent_of(pid_t pid) {
  const auto stat = read_stat(pid);
  if (!stat) return std::nullopt;
  return stat->process.parent;
}

bool is_ancestor(pid_t pid) {
  auto at = std::optional<pid_t>(::getppid());
  while (at && *at > 0 && *at != pid) at = parent_of(*at);
  return at == pid;
}

std::optional<std::uint64_t> start_of(pid_t pid) {
  const auto stat = read_stat(pid);
  if (!stat) return std::nullopt;
  return stat->process.start;
}

bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

GroupPeers group_peers() {
  std::set<pid_t> ours;
  for (auto pid = std::optional<pid_t>(::getpid()); pid && *pid > 0; pid = parent_of(*pid)) {
    if (!ours.insert(*pid).second) break;
  }
  GroupPeers peers;
  for (const auto& [process, state] : all_stats()) {
    if (ours.count(process.pid) != 0 || process.parent == ::getpid()) continue;
    if (::getpgid(process.pid) != ::getpgrp()) continue;
    peers.any = true;
    peers.stopped = peers.stopped || state == 'T';
  }
  return peers;
}

bool group_has_parent_in_session() {
  const auto all = all_stats();
  return std::any_of(all.begin(), all.end(), [](const Stat& stat) {
    if (stat.process.group != ::getpgrp() || stat.process.parent <= 1) return false;
    const pid_t parent = stat.process.parent;
    return ::getpgid(parent) != ::getpgrp() && ::getsid(parent) == ::getsid(0);
  });
}

bool has_pending(pid_t pid, int signal) {
  const std::string path = "/proc/" + std::to_string(pid) + "/status";
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[8192];
  const ssize_t n = file ? ::read(file.get(), text, sizeof text - 1) : 0;
  if (n <= 0) return false;
  text[n] = '\0';
  constexpr char kField[] = "\nShdPnd:";
  const char* const found = std::strstr(text, kField);
  if (found == nullptr) return false;
  const unsigned long long set = std::strtoull(found + sizeof kField - 1, nullptr, 16);
  return ((set >> (signal - 1)) & 1) != 0;
}

SignalOutcome signal_tree(pid_t root, int signal, const Limits& limits) {
  SignalOutcome outcome;
  for (const Process& process : descendants_of(root, limits.until)) {
    if (limits.leaves_out(process)) continue;
    if (limits.until != Nanos::max() && boottime_now() >= limits.until) break;
    const int error = signal_pinned(process, signal);
    if (error == 0) ++outcome.signalled;
    if (error == EPERM) outcome.refused.push_back(process.pid);
  }
  return outcome;
}

SignalOutcome kill_tree(pid_t root, const Limits& limits) {
  // A tree that forks as fast as it is killed is stopped first: what is stopped does not fork.
  constexpr int kPasses = 8;
  std::set<std::pair<pid_t, std::uint64_t>> stopped;
  for (int pass = 0; pass < kPasses; ++pass) {
    bool fresh = false;
    for (const Process& process : descendants_of(root)) {
      if (limits.leaves_out(process)) continue;
      if (!stopped.insert({process.pid, process.start}).second) continue;
      fresh = signal_pinned(process, SIGSTOP) == 0 || fresh;
    }
    if (!fresh) break;
  }
  return signal_tree(root, SIGKILL, limits);
}

}  // namespace holdfast::cli
