#include "bench/redis_rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>

namespace holdfast::bench {
namespace {

using namespace std::chrono_literals;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) return 0;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(fd);
  return ntohs(address.sin_port);
}

// In the child of a fork: becomes the program, which dies with this process.
[[noreturn]] void become(std::vector<std::string> words, pid_t parent, int out) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, 0);
  ::dup2(out < 0 ? null : out, 1);
  ::dup2(null, 2);
  std::vector<char*> args;
  args.reserve(words.size() + 1);
  for (std::string& word : words) args.push_back(word.data());
  args.push_back(nullptr);
  ::execvp(args[0], args.data());
  ::_exit(127);
}

}  // namespace

RedisRig* RedisRig::instance() {
  static RedisRig rig;
  return rig.pid_ > 0 ? &rig : nullptr;
}

RedisRig::RedisRig() {
  std::string pattern = (std::filesystem::temp_directory_path() / "holdfast-bench-XXXXXX").string();
  const char* made = ::mkdtemp(pattern.data());
  if (made == nullptr) return;
  folder_ = made;
  const char* named = std::getenv("HOLDFAST_BENCH_REDIS");
  for (int attempt = 0; attempt < 3 && pid_ <= 0; ++attempt) {
    if (!start(named == nullptr ? "redis-server" : named)) pid_ = -1;
  }
}

bool RedisRig::start(const std::string& program) {
  port_ = free_port();
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    become({program, "--port", std::to_string(port_), "--bind", "127.0.0.1", "--dir", folder_,
            "--save", "", "--appendonly", "no"},
           parent, -1);
  }
  for (int i = 0; i < 500; ++i) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) return false;
    RawConnection connection(port_);
    if (connection.good()) {
      std::istringstream lines(connection.ask({"INFO", "server"}));
      bool ours = false;
      for (std::string line; std::getline(lines, line);) {
        if (line.ends_with('\r')) line.pop_back();
        if (line.starts_with("redis_version:")) version_ = "redis " + line.substr(14);
        ours = ours || line == "process_id:" + std::to_string(pid_);
      }
      return ours;
    }
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

RedisRig::~RedisRig() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

double RedisRig::cpu_seconds() const {
  std::istringstream lines(RawConnection(port_).ask({"INFO", "cpu"}));
  double seconds = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("used_cpu_user:") || line.starts_with("used_cpu_sys:")) {
      seconds += std::atof(line.c_str() + line.find(':') + 1);
    }
  }
  return seconds;
}

std::string RedisRig::load(std::string_view script) const {
  return RawConnection(port_).ask({"SCRIPT", "LOAD", script});
}

RawConnection::RawConnection(std::uint16_t port) : buffer_(256 * 1024) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  const sockaddr_in address = loopback(port);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return;
  ::close(fd_);
  fd_ = -1;
}

RawConnection::~RawConnection() {
  if (fd_ >= 0) ::close(fd_);
}

std::string_view RawConnection::round_trip(std::string_view wire) {
  if (::send(fd_, wire.data(), wire.size(), MSG_NOSIGNAL) < 0) return {};
  const ssize_t got = ::recv(fd_, buffer_.data(), buffer_.size(), 0);
  if (got < 2) return {};
  return {buffer_.data(), static_cast<std::size_t>(got)};
}

std::string RawConnection::ask(const std::vector<std::string_view>& words) {
  std::string_view reply = round_trip(request(words));
  if (reply.empty() || reply[0] == '*') return std::string(reply);
  // A text is the line with its length, then its bytes.
  if (reply[0] == '$') {
    reply.remove_prefix(std::min(reply.size(), reply.find("\r\n") + 2));
  } else {
    reply.remove_prefix(1);
  }
  return std::string(reply.substr(0, reply.size() - std::min<std::size_t>(2, reply.size())));
}

std::string request(const std::vector<std::string_view>& words) {
  std::string wire = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string_view word : words) {
    wire += "$" + std::to_string(word.size()) + "\r\n";
    wire.append(word).append("\r\n");
  }
  return wire;
}

double redis_benchmark(const std::string& options, const std::vector<std::string>& words) {
  std::vector<std::string> command{
      "redis-benchmark", "--csv", "-h",
      "127.0.0.1",       "-p",    std::to_string(RedisRig::instance()->port())};
  std::istringstream split(options);
  for (std::string option; split >> option;) command.push_back(option);
  command.insert(command.end(), words.begin(), words.end());
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return 0;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) become(command, parent, ends[1]);
  ::close(ends[1]);
  std::string text;
  char bytes[4096];
  for (ssize_t got = ::read(ends[0], bytes, sizeof bytes); got > 0;
       got = ::read(ends[0], bytes, sizeof bytes)) {
    text.append(bytes, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) return 0;
  // The last line: "what","rate","avg","min","p50","p95","p99","max", and `what` may hold anything.
  std::size_t at = text.size();
  for (int column = 0; column < 7 && at != std::string::npos && at > 0; ++column) {
    at = text.rfind("\",\"", at - 1);
  }
  return at == std::string::npos ? 0 : std::atof(text.c_str() + at + 3);
}

void pin(pid_t who, int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const int count = static_cast<int>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
  for (int i = 0; i < count; ++i) {
    if (core < 0 || i == core % count) CPU_SET(static_cast<std::size_t>(i), &cores);
  }
  ::sched_setaffinity(who, sizeof cores, &cores);
}

}  // namespace holdfast::bench
