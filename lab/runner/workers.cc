#include "lab/runner/workers.h"

#include <csignal>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "lab/subject/subject.h"

namespace holdfast::lab {
namespace {

constexpr std::int64_t kBackAfter = 200'000'000;  // Ends the pause after a death at a point.

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

Workers::Workers(const Scenario& scenario, const Rig& rig, Recorder& recorder, WorkersPlan orders)
    : scenario_(scenario), rig_(rig), recorder_(recorder), orders_(std::move(orders)) {
  members_.resize(static_cast<std::size_t>(scenario.clients.processes) + 1);
  recorded_.resize(members_.size());
}

std::string Workers::log_of(std::uint32_t number) const {
  return orders_.folder + "/" + std::to_string(number) + ".log";
}

pid_t Workers::pid(std::uint32_t slot) const {
  const Member& member = members_.at(slot);
  return member.process == nullptr || member.ended ? -1 : member.process->pid();
}

void Workers::start(std::uint32_t slot) {
  Member& member = members_.at(slot);
  member = {};
  if (now_ns() >= orders_.until_ns) {
    member.ended = true;
    return;
  }
  member.number = ++last_number_;
  support::Command command;
  command.arguments = {orders_.program,
                       "worker",
                       orders_.folder,
                       std::to_string(member.number),
                       std::to_string(slot),
                       std::to_string(orders_.begin_ns),
                       std::to_string(orders_.until_ns),
                       std::to_string(recorded_[slot]),
                       orders_.prefix};
  command.environment = rig_.client_environment();
  // In the environment, because everybody may read arguments and a URL may hold a password.
  command.environment.push_back("HOLDFAST_LAB_URLS=" + joined(rig_.urls(slot)));
  command.output = log_of(member.number);
  command.network = rig_.network_of_client(slot);
  member.process = std::make_unique<support::ChildProcess>(command);
}

void Workers::kill(std::uint32_t slot) {
  Member& member = members_.at(slot);
  if (member.process == nullptr || member.ended) return;
  member.expected_dead = true;
  Event death;
  death.kind = Kind::kDeath;
  death.process = member.number;
  death.at_ns = now_ns();
  recorder_.record_as_stamped(death);
  member.process->kill9();
  give_back_memory(slot);
}

void Workers::give_back_memory(std::uint32_t slot) {
  recorded_[slot] += trim_region(orders_.folder, members_[slot].number);
}

void Workers::pause(std::uint32_t slot) {
  Member& member = members_.at(slot);
  // Signals and waits without the harness, which treats an ended process as an error.
  if (pid(slot) > 0 && member.process->running()) ::kill(pid(slot), SIGSTOP);
}

void Workers::resume(std::uint32_t slot) {
  Member& member = members_.at(slot);
  if (pid(slot) > 0 && member.process->running()) ::kill(pid(slot), SIGCONT);
}

void Workers::look_at(std::uint32_t slot) {
  Member& member = members_[slot];
  if (member.process == nullptr || member.ended || member.expected_dead) return;
  if (member.back_at_ns != 0) {
    if (now_ns() >= member.back_at_ns) start(slot);
    return;
  }
  if (member.process->running()) return;
  const int status = member.process->wait(0ms).value_or(-1);
  if (status == 0) {
    member.ended = true;
    return;
  }
  bool dies_at_points = false;
  for (const NemesisSpec& spec : scenario_.nemeses) {
    dies_at_points |= spec.kind == "kill" && !spec.at.empty();
  }
  if (status == -SIGKILL && dies_at_points) {
    member.back_at_ns = now_ns() + kBackAfter;
    give_back_memory(slot);
    ++died_at_points_;
    return;
  }
  std::ifstream file(log_of(member.number));
  const std::string said{std::istreambuf_iterator<char>(file), {}};
  throw std::runtime_error("client " + std::to_string(slot) + " ended with " +
                           std::to_string(status) + ": " + (said.empty() ? "no word" : said));
}

void Workers::abandon() {
  for (std::uint32_t slot = 1; slot < members_.size(); ++slot) kill(slot);
}

void Workers::tend() {
  for (std::uint32_t slot = 1; slot < members_.size(); ++slot) look_at(slot);
}

std::size_t Workers::finish(milliseconds limit) {
  std::size_t killed = 0;
  const std::int64_t until = now_ns() + std::chrono::nanoseconds(limit).count();
  for (std::uint32_t slot = 1; slot < members_.size(); ++slot) {
    Member& member = members_[slot];
    if (member.process == nullptr || member.ended || member.expected_dead) continue;
    const std::chrono::nanoseconds left(std::max<std::int64_t>(until - now_ns(), 0));
    if (!member.process->wait(std::chrono::ceil<milliseconds>(left))) {
      kill(slot);
      ++killed;
    }
    look_at(slot);
  }
  return killed;
}

}  // namespace holdfast::lab
