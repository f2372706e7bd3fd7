// The program `holdfast-lab`.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <sstream>

#include "src/cli/text/text.h"
#include "tests/support/small_disk.h"

#include "lab/exhibits/mistakes.h"
#include "lab/program/commands.h"
#include "lab/runner/run.h"
#include "lab/subject/holdfast_subject.h"
#include "lab/workload/worker.h"

namespace holdfast::lab {

const std::vector<SubjectKind>& subjects() {
  static const std::vector<SubjectKind> all = [] {
    std::vector<SubjectKind> found = {holdfast_subject()};
#ifdef HOLDFAST_LAB_HAVE_EXHIBITS
    for (SubjectKind& each : mistakes()) found.push_back(std::move(each));
#endif
    return found;
  }();
  return all;
}

void complain(const std::string& message) { std::cerr << "holdfast-lab: " << message << std::endl; }

int bad_input(const std::string& command, const std::string& message) {
  complain(message + " ('holdfast-lab help" + (command.empty() ? "" : " " + command) +
           "' explains it)");
  return kBadInput;
}

int unusable_store(const std::string& command, const Error& error) {
  if (error.code() == Errc::kInvalidArgument) return bad_input(command, error.message());
  complain("the store cannot be used: " + error.message());
  return kOwnFailure;
}

std::string own_path() {
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  const std::string name(path.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  // A build may have replaced the file. Or it lies on another mount than the root, and the kernel
  // names it by its path there, because this process has mounts of its own. The last path leads to
  // the running program all the same.
  return ::access(name.c_str(), X_OK) == 0 ? name : "/proc/self/exe";
}

// worker FOLDER NUMBER SLOT BEGIN UNTIL RECORDED PREFIX, with the URLs in the environment.
int worker_command(const Arguments& arguments) {
  if (arguments.size() != 7) return bad_input("", "worker: only a run starts it");
  WorkerOrders orders;
  orders.folder = arguments[0];
  orders.process = static_cast<std::uint32_t>(std::stoul(arguments[1]));
  orders.slot = static_cast<std::uint32_t>(std::stoul(arguments[2]));
  orders.begin_ns = std::stoll(arguments[3]);
  orders.until_ns = std::stoll(arguments[4]);
  orders.recorded = std::stoull(arguments[5]);
  orders.prefix = arguments[6];
  const char* urls = std::getenv("HOLDFAST_LAB_URLS");
  std::istringstream lines(urls == nullptr ? "" : urls);
  for (std::string line; std::getline(lines, line);) orders.urls.push_back(line);
  run_worker(orders, subjects());
  return 0;
}

int spin_command(const Arguments& arguments) {
  const std::int64_t span = arguments.size() == 1 ? std::stoll(arguments[0]) : 0;
  const std::int64_t until = now_ns() + span * 1'000'000;
  while (now_ns() < until) {
  }
  return 0;
}

int help_command(const Arguments& arguments) {
  const std::string page = arguments.empty() ? "" : arguments.front();
  const std::string text = help_text(page);
  if (text.empty()) return bad_input("", "there is no command " + cli::in_quotes(page));
  std::cout << text << std::flush;
  return std::cout ? 0 : kOwnFailure;
}

namespace {

volatile std::sig_atomic_t the_signal = 0;

void keep_signal(int number) { the_signal = number; }

// A socket that got the number of a closed standard stream would receive that stream's output.
void keep_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() takes the lowest free number. Writes to this descriptor fail.
    if (::fcntl(fd, F_GETFD) < 0) static_cast<void>(::open("/dev/null", O_RDONLY));
  }
}

// SIGHUP: the terminal is gone, unless nohup ignores that. SIGPIPE: the reader is gone (`| head`).
void catch_signals() {
  struct sigaction action {};
  action.sa_handler = keep_signal;
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) ::sigaction(number, &action, nullptr);
  struct sigaction before {};
  ::sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
}

int dispatch(const std::string& command, const Arguments& arguments) {
  if (command == "run" || command == "matrix") {
    support::keep_mounts_private();
    catch_signals();
  }
  if (command == "exhibits") catch_signals();
  if (command == "run") return run_command(arguments);
  if (command == "matrix") return matrix_command(arguments);
  if (command == "check") return check_command(arguments);
  if (command == "exhibits") return exhibits_command(arguments);
  if (command == "worker") return worker_command(arguments);
  if (command == "spin") return spin_command(arguments);
  if (command == "help" || command == "--help" || command == "-h") return help_command(arguments);
  const std::string near = cli::nearest(command, command_names());
  return bad_input("", "there is no command " + cli::in_quotes(command) +
                           (near.empty() ? "" : "; did you mean '" + near + "'?"));
}

}  // namespace

int signal_seen() { return the_signal; }

}  // namespace holdfast::lab

int main(int argc, char** argv) {
  using namespace holdfast::lab;
  keep_standard_streams();
  const Arguments arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (arguments.empty()) {
    return bad_input("", "say what to do, for example: holdfast-lab run SCENARIO");
  }
  try {
    return dispatch(arguments.front(), {arguments.begin() + 1, arguments.end()});
  } catch (const Interrupted&) {
    return 128 + signal_seen();
  } catch (const std::exception& error) {
    complain(error.what());
    return kOwnFailure;
  }
}
