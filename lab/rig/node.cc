#include "lab/rig/node.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "lab/rig/commands.h"

namespace holdfast::lab {
namespace {

using Clock = std::chrono::steady_clock;

constexpr milliseconds kBetweenLooks{5};
constexpr milliseconds kForAConnection{100};
constexpr milliseconds kFirstLook{1'000};

milliseconds left_until(Clock::time_point until) {
  return std::max(std::chrono::ceil<milliseconds>(until - Clock::now()), milliseconds{1});
}

bool accepts(const std::string& host, std::uint16_t port) {
  const int fd = support::connect_to(host, port);
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

Node::Node(const Topology& topology, NodeSetup setup)
    : topology_(topology), setup_(std::move(setup)) {
  ports_["port"];
  for (const std::string& name : spec().ports) ports_[name];
  for (const auto& [name, port] : ports_) values_[name] = std::to_string(port.number());
  values_["node"] = std::to_string(setup_.number);
  values_["nodes"] = std::to_string(setup_.nodes);
  values_["shards"] = std::to_string(spec().shards);
  values_["host"] = setup_.host;
  values_["folder"] = setup_.folder;
  introduce("", "");
  std::filesystem::create_directories(setup_.folder);
}

void Node::write_files() const {
  for (const auto& [name, text] : spec().files) {
    const std::string path = setup_.folder + "/" + name;
    std::ofstream file(path, std::ios::trunc);
    file << filled(text, values_);
    if (!file.flush()) fail("cannot start: its file " + path + " cannot be written");
  }
}

void Node::launch() {
  if (running()) throw std::runtime_error("the server runs already");
  write_files();
  Words command = spec().command;
  if (setup_.durable) command.insert(command.end(), spec().durable.begin(), spec().durable.end());
  paused_ = false;
  wanted_ = true;
  process_ = std::make_unique<support::ChildProcess>(
      support::Command{.arguments = found_command(topology_, filled(command, values_)),
                       .environment = setup_.environment,
                       .output = setup_.log,
                       .network = setup_.network});
}

bool Node::is_ready(std::string& why_not, milliseconds limit) const {
  if (spec().ready.empty()) {
    why_not = "it accepts no connection";
    return accepts(host(), port());
  }
  try {
    run_within(limit, spec().ready);
    return true;
  } catch (const CommandFailed& error) {
    why_not = error.what();
    return false;
  }
}

void Node::await_ready() {
  const auto until = Clock::now() + spec().patience;
  // A check at a bad moment may never end, so it is repeated. Each one has more time, because on a
  // busy machine the check itself is slow.
  milliseconds look = kFirstLook;
  std::string why_not;
  for (auto begin = Clock::now(); !is_ready(why_not, std::min(look, left_until(until)));
       begin = Clock::now()) {
    if (Clock::now() - begin >= look) look *= 2;
    if (setup_.waiting) setup_.waiting();
    // Waits a moment, or until the server's death.
    if (const auto status = process_->wait(kBetweenLooks)) {
      fail("ended with " + std::to_string(*status) + " instead of starting");
    }
    if (Clock::now() >= until) fail("does not get ready: " + why_not);
  }
  // If the server is dead, another process answered in its place.
  if (!running()) fail("ended instead of starting");
}

void Node::look_after() {
  if (!wanted_ || running()) return;
  wanted_ = false;
  fail("ended by itself with " + std::to_string(process_->wait().value_or(-1)));
}

void Node::pause() {
  look_after();
  try {
    process_->pause();
  } catch (const std::runtime_error&) {
    look_after();  // The server has just ended.
    throw;
  }
  paused_ = true;
}

void Node::resume() {
  look_after();
  paused_ = false;
  process_->resume();
}

void Node::kill() {
  look_after();
  wanted_ = false;
  process_->kill9();
}

void Node::end() {
  look_after();
  try {
    if (!spec().save.empty()) run_within(support::kPatience, spec().save);
    wanted_ = false;
    process_->terminate();
  } catch (const CommandFailed& error) {
    look_after();
    fail(std::string("cannot save what it knows: ") + error.what());
  }
}

void Node::forget() {
  std::filesystem::remove_all(setup_.folder);
  std::filesystem::create_directories(setup_.folder);
}

void Node::run_within(milliseconds limit, const Words& command, const Values& more) const {
  Values values = more;
  values.insert(values_.begin(), values_.end());
  run_command(found_command(topology_, filled(command, values)), limit, setup_.waiting);
}

void Node::run(const Words& command, const Values& more) const {
  run_within(spec().patience, command, more);
}

bool Node::says_yes(const Words& command, const Values& more) const {
  try {
    run(command, more);
    return true;
  } catch (const CommandFailed&) {
    return false;
  }
}

void Node::await(const Words& command) const {
  const auto until = Clock::now() + spec().patience;
  for (;;) {
    if (setup_.waiting) setup_.waiting();
    try {
      return run_within(left_until(until), command);
    } catch (const CommandFailed&) {
      if (Clock::now() >= until) throw;
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

void Node::fail(const std::string& what) const {
  const std::string said = tail_of(setup_.log);
  const std::string name = (setup_.member ? "member-" : "node-") + std::to_string(setup_.number);
  const std::string kind = setup_.member ? "member " : "server ";
  throw NodeFailed("the " + kind + (setup_.nodes > 1 ? std::to_string(setup_.number) + " " : "") +
                       "of the topology '" + topology_.name + "' " + what +
                       (said.empty() ? "" : "; it said:\n" + said),
                   name, setup_.log);
}

}  // namespace holdfast::lab
