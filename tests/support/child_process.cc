#include "tests/support/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/support/temp_folder.h"

namespace holdfast::support {
namespace {

// The parent-death signal comes when the *thread* that forked ends, not the process: one thread
// that never ends does all the forking.
class Spawner {
 public:
  static Spawner& instance() {
    static std::mutex mutex;
    static Spawner* spawner = nullptr;  // Never destroyed: its thread goes on to the end.
    const std::lock_guard lock(mutex);
    // A forked copy of the test has the object, but not the thread.
    if (spawner == nullptr || spawner->owner_ != ::getpid()) spawner = new Spawner;
    return *spawner;
  }

  pid_t spawn(const std::function<pid_t()>& task) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return task_ == nullptr; });
    task_ = &task;
    done_ = false;
    changed_.notify_all();
    changed_.wait(lock, [&] { return done_; });
    const pid_t result = result_;
    task_ = nullptr;
    changed_.notify_all();
    return result;
  }

 private:
  Spawner() {
    std::thread([this] { serve(); }).detach();
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return task_ != nullptr && !done_; });
      result_ = (*task_)();
      done_ = true;
      changed_.notify_all();
    }
  }

  const pid_t owner_ = ::getpid();
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<pid_t()>* task_ = nullptr;
  bool done_ = false;
  pid_t result_ = -1;
};

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  char state = 0;
};

// Nothing: it is gone.
std::optional<Process> look_at(const std::string& pid) {
  // By read(): a stream throws where the process goes between open() and read().
  const int file = ::open(("/proc/" + pid + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::array<char, 1024> bytes{};
  const ssize_t size = ::read(file, bytes.data(), bytes.size());
  ::close(file);
  if (size <= 0) return std::nullopt;
  const std::string text(bytes.data(), static_cast<std::size_t>(size));
  // "12 (any name) S 1 12": the state, the parent, the group.
  const std::size_t name_end = text.rfind(')');
  if (name_end == text.npos) return std::nullopt;
  std::istringstream rest(text.substr(name_end + 1));
  Process found{std::stoi(pid)};
  if (rest >> found.state >> found.parent >> found.group) return found;
  return std::nullopt;
}

std::vector<Process> all_processes() {
  std::vector<Process> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    if (const auto found = look_at(name)) all.push_back(*found);
  }
  return all;
}

// Until each is gone or in one of these states.
void await_states(const std::vector<pid_t>& processes, const std::string& states) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  const auto goes_on = [&](pid_t pid) {
    const auto seen = look_at(std::to_string(pid));
    return seen && states.find(seen->state) == states.npos &&
           std::chrono::steady_clock::now() < until;
  };
  for (const pid_t pid : processes) {
    while (goes_on(pid)) std::this_thread::sleep_for(1ms);
  }
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> all;
  all.reserve(strings.size() + 1);
  for (std::string& each : strings) all.push_back(each.data());
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> environment_with(const std::vector<std::string>& additions) {
  std::vector<std::string> all = additions;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::string name = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const std::string& addition : additions) replaced |= addition.rfind(name, 0) == 0;
    if (!replaced) all.push_back(text);
  }
  return all;
}

// In the child: only what may be called between fork and exec.
[[noreturn]] void become(pid_t parent, const char* path, char** arguments, char** environment,
                         const char* output, int network) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(125);  // It died before the call above.
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  const int in = ::open("/dev/null", O_RDONLY);
  const int out = ::open(output, O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  if (network >= 0 && ::setns(network, CLONE_NEWNET) != 0) ::_exit(125);
  ::close_range(STDERR_FILENO + 1, ~0U, 0);
  ::execve(path, arguments, environment);
  constexpr char kFailed[] = "exec failed\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kFailed, sizeof kFailed - 1);
  ::_exit(126);
}

}  // namespace

std::optional<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return ::access(name.c_str(), X_OK) == 0 ? std::optional(name) : std::nullopt;
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = (folder.empty() ? "." : folder) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

std::string chosen_or(const char* variable, const std::string& usual) {
  const char* chosen = std::getenv(variable);
  return chosen != nullptr && *chosen != '\0' ? chosen : usual;
}

ChildProcess::ChildProcess(const Command& command) {
  const auto path = find_program(command.arguments.at(0));
  if (!path) throw std::runtime_error("no such program: " + command.arguments[0]);
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = environment_with(command.environment);
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> envp = pointers(environment);
  const std::string output = command.output.empty() ? "/dev/null" : command.output;
  const pid_t parent = ::getpid();
  pid_ = Spawner::instance().spawn([&] {
    const pid_t child = ::fork();
    if (child == 0) {
      become(parent, path->c_str(), const_cast<char**>(argv.data()),
             const_cast<char**>(envp.data()), output.c_str(), command.network);
    }
    return child;
  });
  if (pid_ < 0) throw std::runtime_error("cannot fork");
  ::setpgid(pid_, pid_);  // By both, so that either may rely on it at once.
  pid_fd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  if (pid_fd_ < 0) {
    kill9();
    throw std::runtime_error(std::string("pidfd_open: ") + std::strerror(errno));
  }
}

ChildProcess::~ChildProcess() {
  kill9();
  if (pid_fd_ >= 0) ::close(pid_fd_);
}

// Whether anybody of the group lives on. Its leader, not reaped yet, keeps the number its own.
bool ChildProcess::group_lives() const {
  const std::vector<Process> all = all_processes();
  return std::any_of(all.begin(), all.end(), [&](const Process& each) {
    return each.group == pid_ && each.state != 'Z';
  });
}

// Some lead a group of their own: PostgreSQL's, for instance.
std::vector<pid_t> ChildProcess::descendants() const {
  const std::vector<Process> all = all_processes();
  std::set<pid_t> ours = {pid_};
  for (std::size_t before = 0; before != ours.size();) {
    before = ours.size();
    for (const Process& each : all) {
      if (ours.count(each.parent) > 0) ours.insert(each.pid);
    }
  }
  ours.erase(pid_);
  return {ours.begin(), ours.end()};
}

bool ChildProcess::ended(int options) const {
  siginfo_t info{};
  int problem = 0;
  do {
    problem = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT | options);
  } while (problem != 0 && errno == EINTR);
  return problem != 0 || info.si_pid == pid_;
}

bool ChildProcess::reap(int options) {
  if (status_) return true;
  if (!ended(options)) return false;
  // Its leftover processes are ended too, as long as the group's number is its own.
  ::kill(-pid_, SIGKILL);
  int status = 0;
  pid_t changed = 0;
  do {
    changed = ::waitpid(pid_, &status, 0);
  } while (changed < 0 && errno == EINTR);
  if (changed < 0) {
    status_ = -SIGKILL;  // Somebody else has reaped it.
  } else {
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  return true;
}

bool ChildProcess::running() { return !reap(WNOHANG); }

bool ChildProcess::await_end(milliseconds limit) const {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!ended(WNOHANG)) {
    const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
    if (left <= 0ms) return false;
    pollfd over{pid_fd_, POLLIN, 0};
    ::poll(&over, 1, static_cast<int>(left.count()));
  }
  return true;
}

std::optional<int> ChildProcess::wait(milliseconds limit) {
  if (!status_ && await_end(limit)) reap(0);
  return status_;
}

void ChildProcess::signal(int number) {
  if (status_ || ::kill(-pid_, number) != 0) throw std::runtime_error("the program is gone");
}

void ChildProcess::await_change(int change, const std::string& instead) {
  siginfo_t info{};
  int problem = 0;
  do {
    problem = ::waitid(P_PID, static_cast<id_t>(pid_), &info, change | WEXITED | WNOWAIT);
  } while (problem != 0 && errno == EINTR);
  const bool over = problem != 0 || (info.si_code != CLD_STOPPED && info.si_code != CLD_CONTINUED);
  if (over) {
    reap(0);
    throw std::runtime_error("the program ended instead of " + instead);
  }
  ::waitid(P_PID, static_cast<id_t>(pid_), &info, change | WNOHANG);
}

void ChildProcess::pause() {
  signal(SIGSTOP);
  await_change(WSTOPPED, "stopping");
  // A stopped parent makes no more of them.
  const std::vector<pid_t> others = descendants();
  for (const pid_t pid : others) ::kill(pid, SIGSTOP);
  await_states(others, "TtZX");
}

void ChildProcess::resume() {
  for (const pid_t pid : descendants()) ::kill(pid, SIGCONT);
  signal(SIGCONT);
  await_change(WCONTINUED, "going on");
}

int ChildProcess::kill9() {
  // Not reaped yet, so the number of its group is still its own.
  if (!status_) {
    ::kill(-pid_, SIGSTOP);  // So that it makes no more of them.
    const std::vector<pid_t> others = descendants();
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
    for (const pid_t pid : others) ::kill(pid, SIGKILL);
    reap(0);
    await_states(others, "ZX");
  }
  return *status_;
}

int ChildProcess::terminate(milliseconds limit) {
  if (status_) return *status_;
  const auto until = std::chrono::steady_clock::now() + limit;
  signal(SIGTERM);
  signal(SIGCONT);
  bool over = await_end(limit);
  // A wrapper may be gone before the server that it has started.
  while (over && group_lives()) {
    over = std::chrono::steady_clock::now() < until;
    std::this_thread::sleep_for(5ms);
  }
  if (!over) throw std::runtime_error("the program did not end on SIGTERM");
  reap(0);
  return *status_;
}

std::string run(const std::vector<std::string>& arguments) {
  const TempFolder folder("run");
  ChildProcess child({.arguments = arguments, .environment = {}, .output = folder.file("out")});
  const auto status = child.wait();
  std::ifstream file(folder.file("out"));
  std::string output{std::istreambuf_iterator<char>(file), {}};
  if (status != 0) {
    std::string line;
    for (const std::string& each : arguments) line += each + " ";
    throw std::runtime_error(line + "failed (" + std::to_string(status.value_or(-1)) +
                             "): " + output);
  }
  return output;
}

}  // namespace holdfast::support
