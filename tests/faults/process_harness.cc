#include "tests/faults/process_harness.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <vector>

#include "tests/support/clock_shift.h"

namespace holdfast::faults {
namespace {

// In the child, before exec: a process of one thread may change its time namespace.
bool enter_time_namespace(std::int64_t offset_s) {
  if (::unshare(CLONE_NEWTIME) != 0) return false;
  char text[64];
  const int size =
      std::snprintf(text, sizeof text, "boottime %lld 0", static_cast<long long>(offset_s));
  const int offsets = ::open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
  if (offsets < 0 || ::write(offsets, text, static_cast<std::size_t>(size)) != size) return false;
  ::close(offsets);
  const int space = ::open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
  const bool done = space >= 0 && ::setns(space, CLONE_NEWTIME) == 0;
  if (space >= 0) ::close(space);
  return done;
}

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    read = ends[0];
    write = ends[1];
  }
  int read = -1;
  int write = -1;
};

std::vector<std::string> environment_with(const ActorOptions& options) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) all.emplace_back(*variable);
  if (!options.clock_file.empty()) {
    all.push_back("LD_PRELOAD=" + support::clock_shim_library());
    all.push_back(support::clock_shim_variable(options.clock_file));
  }
  return all;
}

}  // namespace

ActorProcess::ActorProcess(const ActorOptions& options) {
  const Pipe to;
  const Pipe from;
  std::vector<std::string> environment = environment_with(options);
  std::vector<char*> variables;
  for (std::string& variable : environment) variables.push_back(variable.data());
  variables.push_back(nullptr);
  char program[] = HOLDFAST_FAULTS_ACTOR;
  char* arguments[] = {program, nullptr};
  ::signal(SIGPIPE, SIG_IGN);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGPIPE, SIG_DFL);
    ::dup2(to.read, STDIN_FILENO);
    ::dup2(from.write, STDOUT_FILENO);
    if (options.boottime_offset_s != 0 && !enter_time_namespace(options.boottime_offset_s)) {
      ::_exit(70);
    }
    // The actor must not get what the test itself has inherited.
    ::close_range(STDERR_FILENO + 1, ~0U, 0);
    ::execve(program, arguments, variables.data());
    ::_exit(71);
  }
  ::close(to.read);
  ::close(from.write);
  in_ = to.write;
  out_ = from.read;
  answer();
}

ActorProcess::ActorProcess(const std::string& url, const ActorOptions& options)
    : ActorProcess(options) {
  const Line connected = ask("connect " + url);
  if (connected.word != "ok") fail("could not connect: " + connected.get("text"));
}

ActorProcess::~ActorProcess() {
  if (pid_ > 0) kill();
  ::close(in_);
  ::close(out_);
}

void ActorProcess::fail(const std::string& what) const {
  throw std::runtime_error("actor " + std::to_string(pid_) + ": " + what + "; it said:\n" + said_);
}

void ActorProcess::send(const std::string& command) {
  said_ += "> " + command + "\n";
  const std::string line = command + "\n";
  if (::write(in_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    fail("does not listen");
  }
}

Line ActorProcess::answer(milliseconds limit) { return take('=', "", limit); }

Line ActorProcess::ask(const std::string& command, milliseconds limit) {
  send(command);
  return answer(limit);
}

Line ActorProcess::event(const std::string& word, milliseconds limit) {
  return take('!', word, limit);
}

Line ActorProcess::queue_up(const std::string& name, milliseconds lease) {
  send("acquire " + name + " " + std::to_string(lease.count()));
  return event("queued");
}

void ActorProcess::forget_events() {
  while (read_more(0ms)) {
  }
  std::erase_if(lines_, [](const Line& line) { return line.kind == '!'; });
}

bool ActorProcess::has_event(const std::string& word) {
  while (read_more(0ms)) {
  }
  return std::any_of(lines_.begin(), lines_.end(),
                     [&](const Line& line) { return line.kind == '!' && line.word == word; });
}

Line ActorProcess::take(char kind, const std::string& word, milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto found = std::find_if(lines_.begin(), lines_.end(), [&](const Line& line) {
      return line.kind == kind && (word.empty() || line.word == word);
    });
    if (found != lines_.end()) {
      Line line = std::move(*found);
      lines_.erase(found);
      return line;
    }
    const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
    if (left <= 0ms || !read_more(left)) {
      fail("no " + std::string(1, kind) + word + " within " + std::to_string(limit.count()) +
           " ms");
    }
  }
}

bool ActorProcess::read_more(milliseconds limit) {
  pollfd ready{out_, POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(limit.count())) <= 0) return false;
  char part[4096];
  const ssize_t size = ::read(out_, part, sizeof part);
  if (size <= 0) return false;
  partial_.append(part, static_cast<std::size_t>(size));
  for (auto end = partial_.find('\n'); end != std::string::npos; end = partial_.find('\n')) {
    said_ += partial_.substr(0, end + 1);
    lines_.push_back(Line::parse(std::string_view(partial_).substr(0, end)));
    partial_.erase(0, end + 1);
  }
  return true;
}

std::int64_t ActorProcess::kill() {
  const std::int64_t at = host_boot_ns();
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return at;
}

std::int64_t ActorProcess::stop() {
  const std::int64_t at = host_boot_ns();
  int status = 0;
  ::kill(pid_, SIGSTOP);
  if (::waitpid(pid_, &status, WUNTRACED) != pid_ || !WIFSTOPPED(status)) fail("did not stop");
  return at;
}

std::int64_t ActorProcess::resume() {
  const std::int64_t at = host_boot_ns();
  int status = 0;
  ::kill(pid_, SIGCONT);
  if (::waitpid(pid_, &status, WCONTINUED) != pid_ || !WIFCONTINUED(status)) fail("did not go on");
  return at;
}

void wait_for_a_waiter(ActorProcess& observer, const std::string& name) {
  const std::int64_t until = host_boot_ns() + ns(kPatience);
  while (observer.ask("look " + name).number("waiters") == 0) {
    if (host_boot_ns() > until) throw std::runtime_error("nobody waits for " + name);
    let_pass(10ms);
  }
}

void let_pass(milliseconds duration) { let_pass_until(host_boot_ns() + ns(duration)); }

void let_pass_until(std::int64_t until) {
  for (std::int64_t left = until - host_boot_ns(); left > 0; left = until - host_boot_ns()) {
    timespec time{};
    time.tv_sec = static_cast<time_t>(left / 1'000'000'000);
    time.tv_nsec = static_cast<long>(left % 1'000'000'000);
    ::nanosleep(&time, nullptr);
  }
}

bool is_root() { return ::geteuid() == 0; }

bool time_namespaces_work() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(enter_time_namespace(1) ? 0 : 1);
  int status = 1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace holdfast::faults
