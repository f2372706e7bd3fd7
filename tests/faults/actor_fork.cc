// The actor's children.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/faults/actor.h"
#include "tests/faults/line.h"

extern char** environ;

namespace {
// A forked child lets go of what belongs to the parent's threads without touching it.
bool leaks = false;
}  // namespace
// The leak sanitizer asks before it looks.
extern "C" __attribute__((visibility("default"), used)) int __lsan_is_turned_off() {
  return leaks ? 1 : 0;
}

namespace holdfast::faults {
namespace {

using std::chrono::milliseconds;

std::string code_of(const Result<void>& result) {
  return result ? "ok" : std::string(errc_name(result.error().code()));
}

template <typename T>
std::string code_of(const Result<T>& result) {
  return result ? "ok" : std::string(errc_name(result.error().code()));
}

std::string read_all(int fd) {
  std::string text;
  char part[4096];
  for (;;) {
    const ssize_t size = ::read(fd, part, sizeof part);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return text;
    text.append(part, static_cast<std::size_t>(size));
  }
}

void send(int fd, const std::string& text) {
  if (::write(fd, text.data(), text.size()) < 0) std::_Exit(1);
}

void settle_child() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(60);
}

// A child of a holder looks through the parent's objects, and again after it let go of them.
std::string look_as_child(Actor& actor) {
  Lease& lease = *actor.lease;
  const std::string name = lease.name();
  std::string report = std::string(" held=") + (lease.held() ? "yes" : "no");
  const auto loss = lease.loss();
  report += " loss=" + (loss ? std::string(errc_name(loss->code())) : "none");
  report += " remaining=" + std::to_string(lease.remaining().count());
  report += " renew=" + code_of(lease.renew());
  report += " release=" + code_of(lease.release());
  AcquireOptions options;
  options.ttl = milliseconds(1'000);
  options.wait = milliseconds(0);
  report += " acquire=" + code_of(actor.client->mutex("other").acquire(options));
  report += " inspect=" + code_of(actor.client->inspect(name));
  report += " close=" + code_of(actor.client->close());
  actor.on_loss.reset();
  actor.lease.reset();
  actor.client.reset();

  const auto connected = connect(actor, actor.url);
  report += " connect=" + code_of(connected);
  if (!connected) return report + describe(connected.error());
  report += " same=" + code_of(actor.client->mutex(name).acquire(options));
  auto own = actor.client->mutex("child").acquire(options);
  report += " own=" + code_of(own);
  if (own) report += " own_release=" + code_of(own->release());
  return report;
}

}  // namespace

// fork-look exit|_exit: a child looks at what it inherited, connects anew and ends.
void fork_and_look(Actor& actor, const Words& words) {
  int out[2];
  if (::pipe2(out, O_CLOEXEC) != 0) std::abort();
  const pid_t child = ::fork();
  if (child == 0) {
    leaks = true;
    settle_child();
    send(out[1], look_as_child(actor));
    if (words.at(1) == "_exit") std::_Exit(0);
    std::exit(0);
  }
  ::close(out[1]);
  const std::string report = read_all(out[0]);
  ::close(out[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  say("= child status=" + std::to_string(status) + report);
}

// fork-keep NAME TTL_MS: a child connects anew and holds NAME until fork-end.
void fork_and_keep(Actor& actor, const Words& words) {
  int out[2];
  int in[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(in, O_CLOEXEC) != 0) std::abort();
  const pid_t child = ::fork();
  if (child == 0) {
    settle_child();
    ::close(in[1]);
    actor.client.reset();
    const auto connected = connect(actor, actor.url);
    if (!connected) {
      send(out[1], "failed" + describe(connected.error()) + "\n");
      std::_Exit(0);
    }
    AcquireOptions options;
    options.ttl = milliseconds(std::stoll(words.at(2)));
    options.wait = milliseconds(5'000);
    auto lease = actor.client->mutex(words.at(1)).acquire(options);
    send(out[1], (lease ? "kept" + describe(*lease) : "failed" + describe(lease.error())) + "\n");
    if (!lease) std::_Exit(0);
    read_all(in[0]);
    const bool held = lease->held();
    const auto released = lease->release();
    send(out[1], std::string("ended held=") + (held ? "yes" : "no") +
                     " release=" + code_of(released) + "\n");
    std::_Exit(0);
  }
  ::close(out[1]);
  ::close(in[0]);
  actor.child = child;
  actor.to_child = in[1];
  actor.from_child = out[0];
  std::string first;
  for (char c = 0; ::read(out[0], &c, 1) == 1 && c != '\n';) first.push_back(c);
  say("= " + (first.empty() ? std::string("nothing") : first));
}

void end_kept(Actor& actor, const Words&) {
  ::close(actor.to_child);
  std::string last = read_all(actor.from_child);
  ::close(actor.from_child);
  ::waitpid(actor.child, nullptr, 0);
  while (!last.empty() && last.back() == '\n') last.pop_back();
  say("= " + (last.empty() ? std::string("nothing") : last));
}

// fork-storm TIMES: children are made, connect and lock while other threads of ours use the store.
void fork_in_a_storm(Actor& actor, const Words& words) {
  std::vector<std::jthread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&actor, i](const std::stop_token& stop) {
      auto mutex = actor.client->mutex("parent" + std::to_string(i));
      while (!stop.stop_requested()) {
        if (const auto lease = mutex.acquire()) static_cast<void>(lease->held());
      }
    });
  }
  int failed = 0;
  std::int64_t slowest = 0;
  for (int i = 0; i < std::stoi(words.at(1)); ++i) {
    const std::int64_t before = host_boot_ns();
    const pid_t child = ::fork();
    if (child == 0) {
      settle_child();
      ::alarm(10);
      auto own = Client::connect(actor.url);
      if (!own) std::_Exit(2);
      auto lease = own->mutex("child").acquire();
      std::_Exit(lease && lease->held() && lease->release() ? 0 : 3);
    }
    slowest = std::max(slowest, host_boot_ns() - before);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) ++failed;
  }
  others.clear();
  say("= stormed failed=" + std::to_string(failed) + " slowest=" + std::to_string(slowest));
}

// exec-list: what a program sees that we start.
void list_inherited(Actor&, const Words&) {
  int out[2];
  if (::pipe2(out, O_CLOEXEC) != 0) std::abort();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  char program[] = "/proc/self/exe";
  char option[] = "--list-descriptors";
  char* arguments[] = {program, option, nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, program, &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(out[1]);
  const std::string list = failed == 0 ? read_all(out[0]) : std::string("not-started");
  ::close(out[0]);
  if (failed == 0) ::waitpid(child, nullptr, 0);
  say("= descriptors text=" + list);
}

// Everything above the three standard ones, but for the listing itself.
int print_descriptors() {
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return 1;
  std::string list;
  for (const dirent* entry = ::readdir(folder); entry != nullptr; entry = ::readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] == '.' || fd <= STDERR_FILENO || fd == ::dirfd(folder)) continue;
    char target[512] = {};
    const std::string link = std::string("/proc/self/fd/") + entry->d_name;
    if (::readlink(link.c_str(), target, sizeof target - 1) < 0) continue;
    list += std::string(entry->d_name) + "->" + target + ";";
  }
  ::closedir(folder);
  std::fputs(list.empty() ? "none" : list.c_str(), stdout);
  std::fflush(stdout);
  return 0;
}

}  // namespace holdfast::faults
