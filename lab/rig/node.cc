#include "lab/rig/node.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <utility>

#include "lab/rig/commands.h"

namespace holdfast::lab {
namespace {

using Clock = std::chrono::steady_clock;

constexpr milliseconds kBetweenLooks{5};
constexpr milliseconds kForAConnection{100};
constexpr std::size_t kOfTheLog = 4000;

bool accepts(std::uint16_t port) {
  const int fd = support::connect_to_loopback(port);
  if (fd < 0) return false;
  pollfd connected{fd, POLLOUT, 0};
  int problem = -1;
  socklen_t size = sizeof problem;
  const bool accepted = ::poll(&connected, 1, static_cast<int>(kForAConnection.count())) == 1 &&
                        ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &size) == 0 &&
                        problem == 0;
  ::close(fd);
  return accepted;
}

}  // namespace

Node::Node(const Topology& topology, NodeSite site) : topology_(topology), site_(std::move(site)) {
  ports_["port"];
  for (const std::string& name : spec().ports) ports_[name];
  for (const auto& [name, port] : ports_) values_[name] = std::to_string(port.number());
  values_["node"] = std::to_string(site_.number);
  values_["nodes"] = std::to_string(site_.nodes);
  values_["folder"] = site_.folder;
  values_["peers"] = "";
  std::filesystem::create_directories(site_.folder);
}

void Node::write_files() const {
  for (const auto& [name, text] : spec().files) {
    const std::string path = site_.folder + "/" + name;
    std::ofstream file(path, std::ios::trunc);
    file << filled(text, values_);
    if (!file.flush()) fail("cannot start: its file " + path + " cannot be written");
  }
}

void Node::launch() {
  if (running()) throw std::runtime_error("the server runs already");
  write_files();
  Words command = spec().command;
  if (site_.durable) command.insert(command.end(), spec().durable.begin(), spec().durable.end());
  paused_ = false;
  process_ = std::make_unique<support::ChildProcess>(
      support::Command{.arguments = found_command(topology_, filled(command, values_)),
                       .environment = site_.environment,
                       .output = site_.log});
}

bool Node::is_ready(std::string& why_not) const {
  if (spec().ready.empty()) {
    why_not = "it accepts no connection";
    return accepts(port());
  }
  try {
    run(spec().ready);
    return true;
  } catch (const std::runtime_error& error) {
    why_not = error.what();
    return false;
  }
}

void Node::await_ready() {
  const auto until = Clock::now() + spec().patience;
  std::string why_not;
  while (!is_ready(why_not)) {
    if (site_.waiting) site_.waiting();
    // Waits for its death, and for a moment.
    if (const auto status = process_->wait(kBetweenLooks)) {
      fail("ended with " + std::to_string(*status) + " instead of starting");
    }
    if (Clock::now() >= until) fail("does not get ready: " + why_not);
  }
  // Somebody else may have answered in its place.
  if (!running()) fail("ended instead of starting");
}

void Node::pause() {
  process_->pause();
  paused_ = true;
}

void Node::resume() {
  paused_ = false;
  process_->resume();
}

void Node::end() {
  if (!spec().save.empty()) run(spec().save);
  process_->terminate();
}

void Node::forget() {
  std::filesystem::remove_all(site_.folder);
  std::filesystem::create_directories(site_.folder);
}

void Node::run(const Words& command, const Values& more) const {
  Values values = more;
  values.insert(values_.begin(), values_.end());
  support::run(found_command(topology_, filled(command, values)));
}

bool Node::says_yes(const Words& command) const {
  try {
    run(command);
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

void Node::await(const Words& command) const {
  const auto until = Clock::now() + spec().patience;
  for (;;) {
    if (site_.waiting) site_.waiting();
    try {
      return run(command);
    } catch (const std::runtime_error&) {
      if (Clock::now() >= until) throw;
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

void Node::fail(const std::string& what) const {
  std::ifstream file(site_.log);
  std::string said{std::istreambuf_iterator<char>(file), {}};
  if (said.size() > kOfTheLog) said.erase(0, said.size() - kOfTheLog);
  throw std::runtime_error("the server of the topology '" + topology_.name + "' " + what +
                           (said.empty() ? "" : "; it said:\n" + said));
}

}  // namespace holdfast::lab
