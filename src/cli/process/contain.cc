#include "src/cli/process/contain.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <utility>

#include "src/cli/exit_codes.h"
#include "src/cli/process/fd.h"
#include "src/cli/process/signals.h"

namespace holdfast::cli {
namespace {

using namespace std::chrono_literals;

Error no_containment(const std::string& kind, const std::string& why) {
  return {Errc::kInvalidArgument, "--contain " + kind + " cannot be had here: " + why};
}

// 0 or an errno.
int write_file(const std::string& path, const std::string& text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return errno;
  return ::write(file.get(), text.data(), text.size()) < 0 ? errno : 0;
}

// --- Cgroups.

// Finds where the unified hierarchy is mounted, and which part of it.
std::optional<std::pair<std::string, std::string>> unified_mount() {
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos || !line.substr(dash + 3).starts_with("cgroup2 ")) continue;
    std::istringstream words(line);
    std::string id, parent, device, root, point;
    words >> id >> parent >> device >> root >> point;
    return std::pair(root, point);
  }
  return std::nullopt;
}

std::optional<std::string> own_folder() {
  const auto mount = unified_mount();
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; mount && std::getline(groups, line);) {
    if (!line.starts_with("0::")) continue;
    std::string path = line.substr(3);
    if (mount->first != "/" && path.starts_with(mount->first)) path.erase(0, mount->first.size());
    return mount->second + (path == "/" ? "" : path);
  }
  return std::nullopt;
}

// A child's exit status, which is 0 or an errno.
int answer_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

// A child tries it, and ends. 0 or an errno.
int try_to_enter(const std::string& path) {
  const pid_t probe = ::fork();
  if (probe < 0) return errno;
  if (probe == 0) ::_exit(enter_cgroup(path));
  return answer_of(probe);
}

}  // namespace

Result<Cgroup> Cgroup::make() {
  const auto folder = own_folder();
  if (!folder) return no_containment("cgroup", "no cgroup of version 2 is mounted");
  const auto cannot = [&](const char* what, int error) {
    return no_containment("cgroup", what + *folder + ": " + std::strerror(error) +
                                        ". Have that one delegated (Delegate=yes of systemd, or "
                                        "'systemd-run --user --scope -p Delegate=yes'), or use "
                                        "--contain pidns");
  };
  // The same process may have its like in another pid namespace.
  std::uint32_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) random = 0;
  Cgroup made(*folder + "/holdfast-" + std::to_string(::getpid()) + "-" + std::to_string(random));
  if (::mkdir(made.path_.c_str(), 0755) != 0) return cannot("cannot make a cgroup in ", errno);
  made.maker_ = ::getpid();
  if (::access((made.path_ + "/cgroup.kill").c_str(), W_OK) != 0) {
    return no_containment("cgroup", "the kernel has no cgroup.kill (Linux 5.14 has it)");
  }
  // To move a process takes a right on the folder above, too.
  if (const int error = try_to_enter(made.path_)) return cannot("cannot enter a cgroup in ", error);
  return made;
}

Cgroup::Cgroup(Cgroup&& other) noexcept
    : path_(std::exchange(other.path_, {})), maker_(std::exchange(other.maker_, 0)) {}

Cgroup::~Cgroup() {
  if (maker_ == ::getpid()) ::rmdir(path_.c_str());
}

int enter_cgroup(const std::string& path) { return write_file(path + "/cgroup.procs", "0"); }

void kill_cgroup(const std::string& path) { write_file(path + "/cgroup.kill", "1"); }

void remove_cgroup(const std::string& path) {
  if (!path.empty()) ::rmdir(path.c_str());
}

bool is_in_use(const std::string& path) {
  errno = 0;
  std::ifstream events(path + "/cgroup.events");
  if (!events) return errno != ENOENT && errno != ENODEV;  // Not to be told is no answer.
  for (std::string word; events >> word;) {
    int number = 0;
    if (word == "populated" && events >> number) return number != 0;
  }
  return false;
}

// --- Pid namespaces.

namespace {

// 0 or an errno. Children of this process are in it; the mounts of this one are its own from now
// on.
int unshare_pids() {
  const std::string uid = std::to_string(::geteuid());
  const std::string gid = std::to_string(::getegid());
  constexpr int kSpaces = CLONE_NEWPID | CLONE_NEWNS;
  if (::unshare(kSpaces) != 0) {
    if (errno != EPERM) return errno;
    if (::unshare(CLONE_NEWUSER | kSpaces) != 0) return errno;
    // Without it an unprivileged process may not set the map of groups.
    write_file("/proc/self/setgroups", "deny");
    if (const int error = write_file("/proc/self/uid_map", uid + " " + uid + " 1")) return error;
    if (const int error = write_file("/proc/self/gid_map", gid + " " + gid + " 1")) return error;
  }
  // Later mounts outside stay visible inside.
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0 ? 0 : errno;
}

int mount_proc() {
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  return ::mount("proc", "/proc", "proc", kFlags, nullptr) == 0 ? 0 : errno;
}

void wait_for_child(Nanos until) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child, nullptr);
  const Nanos left = std::max<Nanos>(until - boottime_now(), Nanos::zero());
  const timespec limit{left / 1s, (left % 1s).count()};
  ::sigtimedwait(&child, nullptr, &limit);
}

// Reaps until nobody is left, or it is time.
void reap_until(Nanos until) {
  while (boottime_now() < until) {
    const pid_t pid = ::waitpid(-1, nullptr, WNOHANG);
    if (pid < 0 && errno != EINTR) return;
    if (pid == 0) wait_for_child(std::min(until, boottime_now() + 1s));
  }
}

// The first process of the namespace: the kernel ends all others when it ends. It cannot end by a
// signal, so the command's status is told over `link`.
[[noreturn]] void be_first(pid_t command, Rest rest, int link) {
  ::prctl(PR_SET_NAME, "holdfast-init");
  int status = 0;
  for (pid_t reaped = 0; reaped != command;) {
    reaped = ::waitpid(-1, &status, 0);
    if (reaped < 0 && errno != EINTR) ::_exit(125);
  }
  if (!rest.wait) ::kill(-1, SIGTERM);
  reap_until(rest.wait ? Nanos::max() : boottime_now() + rest.kill_after);
  [[maybe_unused]] const ssize_t sent = ::send(link, &status, sizeof status, MSG_NOSIGNAL);
  ::_exit(0);
}

// Ends as the command did, for whoever waits for this process.
[[noreturn]] void end_like(int status) {
  if (WIFEXITED(status)) ::_exit(WEXITSTATUS(status));
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : SIGKILL;
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);  // The command may have left one.
  ::signal(signal, SIG_DFL);
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_UNBLOCK, &all, nullptr);
  ::raise(signal);
  ::_exit(kExitSignalBase + signal);
}

// The command's process here: whoever sends over a socket is named by the kernel, in the numbers of
// the receiver.
pid_t receive_pid(int link) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> room{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  if (::recvmsg(link, &message, 0) != 1) return 0;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_CREDENTIALS) return 0;
  ucred who{};
  std::memcpy(&who, CMSG_DATA(header), sizeof who);
  return who.pid;
}

// A signal to the whole group has reached the command already.
[[noreturn]] void stand_in(pid_t first, int link) {
  ::prctl(PR_SET_NAME, "holdfast-init");
  const pid_t command = receive_pid(link);
  sigset_t all;
  sigfillset(&all);
  for (const int stops : {SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT}) sigdelset(&all, stops);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  for (const int stops : {SIGTSTP, SIGTTIN, SIGTTOU}) ::signal(stops, SIG_DFL);
  for (;;) {
    const pid_t ended = ::waitpid(first, nullptr, WNOHANG);
    if (ended != 0 && !(ended < 0 && errno == EINTR)) break;
    const int signal = ::sigwaitinfo(&all, nullptr);
    if (signal > 0 && signal != SIGCHLD && !is_for_group(signal) && command > 0) {
      ::kill(command, signal);
    }
  }
  int status = SIGKILL;  // As wait() tells it: it was killed, with all of its namespace.
  [[maybe_unused]] const ssize_t got = ::recv(link, &status, sizeof status, MSG_DONTWAIT);
  end_like(status);
}

}  // namespace

Result<void> check_pid_namespace() {
  const pid_t probe = ::fork();
  if (probe < 0) return no_containment("pidns", std::strerror(errno));
  if (probe == 0) {
    if (const int error = unshare_pids()) ::_exit(error);
    const pid_t first = ::fork();
    if (first < 0) ::_exit(errno);
    if (first == 0) ::_exit(mount_proc());
    ::_exit(answer_of(first));
  }
  const int error = answer_of(probe);
  if (error == 0) return {};
  return no_containment("pidns", std::string(std::strerror(error)) +
                                     ". It takes root (CAP_SYS_ADMIN), or user namespaces for all "
                                     "(sysctl kernel.unprivileged_userns_clone and "
                                     "user.max_user_namespaces; containers often forbid both)");
}

int enter_pid_namespace(Rest rest) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  const int on = 1;
  ::setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  const pid_t guard = ::getppid();
  if (const int error = unshare_pids()) return error;
  // New capabilities have taken it away.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != guard) ::_exit(125);
  const pid_t first = ::fork();
  if (first < 0) return errno;
  if (first > 0) {
    ::dup2(ends[0], 0);
    ::close_range(1, ~0U, 0);
    stand_in(first, 0);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::close(ends[0]);
  pollfd stands{ends[1], POLLIN, 0};
  // The stand-in may have died before we asked to die with it.
  if (::poll(&stands, 1, 0) > 0 && (stands.revents & (POLLHUP | POLLERR)) != 0) ::_exit(125);
  if (mount_proc() != 0) ::_exit(125);
  const pid_t command = ::fork();
  if (command < 0) ::_exit(125);
  if (command > 0) {
    ::dup2(ends[1], 0);
    ::close_range(1, ~0U, 0);
    be_first(command, rest, 0);
  }
  char byte = 0;
  [[maybe_unused]] const ssize_t sent = ::send(ends[1], &byte, 1, MSG_NOSIGNAL);
  ::close(ends[1]);
  return 0;
}

}  // namespace holdfast::cli
