#include "lab/exhibits/play.h"

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

#include "lab/recorder/collector.h"
#include "lab/resource/resource.h"
#include "lab/subject/holdfast_subject.h"

namespace holdfast::lab {
namespace {

template <typename T>
T taken(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message());
  return std::move(*result);
}

}  // namespace

support::RedisServer& House::node(std::size_t number) {
  std::unique_ptr<support::RedisServer>& one = nodes_.at(number);
  if (one == nullptr) one = std::make_unique<support::RedisServer>();
  if (!one->running()) one->start();
  return *one;
}

void House::clear() {
  for (const auto& one : nodes_) {
    if (one != nullptr && one->running()) one->flushall();
  }
}

std::string House::redis_version() {
  std::string text;
  for (const int part : redis().version()) text += (text.empty() ? "" : ".") + std::to_string(part);
  return text;
}

Replicated::Replicated(const std::string& clock_shift_file)
    : primary_({.config = {"repl-diskless-sync-delay 0", "repl-ping-replica-period 1"},
                .clock_shift_file = clock_shift_file}),
      link_({.server_port = primary_.port()}) {
  const std::string follow = "replicaof 127.0.0.1 " + std::to_string(link_.port());
  replica_ = std::make_unique<support::RedisServer>(support::RedisOptions{.config = {follow}});
  const bool up = replica_->eventually([](support::RedisServer& replica) {
    return replica.info("replication", "master_link_status") == "up";
  });
  if (!up) throw std::runtime_error("the replica does not follow");
}

void Replicated::cut() {
  link_.add({.kind = support::Fault::Kind::kBlackhole, .direction = support::Direction::kToClient});
}

void Replicated::fail_over() {
  primary_.kill9();
  replica_->must({"REPLICAOF", "NO", "ONE"});
}

Play::Play(House& house, bool beside) : house_(house), beside_(beside) {
  house.clear();
  stage_ = taken(Recorder::create(folder_.path(), 0, 4096));
  taken(Resource::create(file("resource"), static_cast<std::uint32_t>(locks_.size())));
}

Player& Play::player(const std::string& name, const SubjectKind& mistake,
                     std::vector<std::string> urls) {
  if (urls.empty()) urls.push_back(house_.redis().url());
  Role role{.name = name};
  role.process = static_cast<std::uint32_t>(players_.size()) + 1;
  role.target = target(name);
  role.kind = beside_ ? holdfast_subject() : mistake;
  role.has_points = !beside_;
  role.urls = std::move(urls);
  role.locks = locks_;
  role.folder = folder_.path();
  role.resource = file("resource");
  role.sql_guard = sql_guard_;
  role.mode = mode_;
  names_[role.process] = name;
  return players_.emplace_back(std::move(role), *stage_);
}

std::uint32_t Play::target(const std::string& name) {
  const auto found = std::find(targets_.begin(), targets_.end(), name);
  if (found == targets_.end()) {
    targets_.push_back(name);
    return static_cast<std::uint32_t>(targets_.size()) - 1;
  }
  return static_cast<std::uint32_t>(found - targets_.begin());
}

void Play::mark(Kind kind, FaultKind fault, Phase phase, const std::string& name) {
  Event event;
  event.kind = kind;
  event.fault = fault;
  event.phase = phase;
  event.target = target(name);
  stage_->record(event);
}

void Play::begin(FaultKind kind, const std::string& name) {
  mark(Kind::kFault, kind, Phase::kInvoke, name);
}
void Play::end(FaultKind kind, const std::string& name) {
  mark(Kind::kFault, kind, Phase::kReturn, name);
}

void Play::fault(FaultKind kind, const std::string& name, const std::function<void()>& action) {
  begin(kind, name);
  action();
  end(kind, name);
}

void Play::memory_loss(FaultKind kind, const std::string& name,
                       const std::function<void()>& action) {
  begin(kind, name);
  mark(Kind::kIncarnation, FaultKind::kNone, Phase::kInvoke, name);
  action();
  mark(Kind::kIncarnation, FaultKind::kNone, Phase::kReturn, name);
  end(kind, name);
}

History Play::history() {
  players_.clear();
  History history;
  history.locks = locks_;
  history.targets = targets_;
  history.events = taken(collect(folder_.path())).events;
  return history;
}

void sleep_for(milliseconds span) { std::this_thread::sleep_for(span); }

}  // namespace holdfast::lab
