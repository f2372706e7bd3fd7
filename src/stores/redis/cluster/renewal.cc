// Renewals in a cluster: all servers at the same time, each lock at the owner of its slot.
#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "src/base/thread.h"
#include "src/stores/redis/cluster/cluster.h"

namespace holdfast::stores::redis {
namespace {

using base::BootClock;
using base::BootInstant;
using port::AcquisitionState;
using How = Renewer::How;

constexpr int kMostRounds = 8;
constexpr std::chrono::milliseconds kPause{20};
constexpr std::chrono::milliseconds kLongestLearning{500};

}  // namespace

// Each part is what one node is asked in one way.
struct Cluster::RenewalPart {
  Node* node;
  How how;
  std::vector<std::size_t> indices;
  Result<std::vector<Renewer::Answer>> answers = std::vector<Renewer::Answer>{};
};

struct Cluster::Renewal {
  const std::vector<port::RenewItem>& items;
  const BootInstant deadline;
  std::vector<std::optional<Result<AcquisitionState>>> states;
  // The questions of the next round, by node: indices of items.
  std::map<Node*, std::map<How, std::vector<std::size_t>>> due{};
  bool pauses = false;

  void ask(Node& node, How how, std::size_t index) { due[&node][how].push_back(index); }
};

Result<std::vector<Result<AcquisitionState>>> Cluster::renew(
    const std::vector<port::RenewItem>& items, BootInstant deadline) {
  gave_up_ = false;
  Renewal renewal{items, deadline, {}};
  renewal.states.assign(
      items.size(), Result<AcquisitionState>(Error(Errc::kUnavailable, where_ + ": given up")));
  std::vector<std::pair<std::uint16_t, std::size_t>> by_slot;
  for (std::size_t i = 0; i < items.size(); ++i) {
    by_slot.emplace_back(requests_.slot_of(items[i].name), i);
  }
  std::sort(by_slot.begin(), by_slot.end());
  for (const auto& [slot, index] : by_slot) renewal.ask(node_of(slot), How::kTogether, index);
  for (int round = 0; round < kMostRounds && !renewal.due.empty(); ++round) {
    if (renewal.pauses) std::this_thread::sleep_for(kPause);
    if (gave_up_ || (round > 0 && BootClock::now() + kPause >= deadline)) break;
    renew_round(renewal);
  }
  std::vector<Result<AcquisitionState>> states;
  states.reserve(items.size());
  for (auto& each : renewal.states) states.push_back(*std::move(each));
  return states;
}

void Cluster::renew_round(Renewal& renewal) {
  using Part = RenewalPart;
  std::vector<std::vector<Part>> by_node;
  for (auto& [node, ways] : std::exchange(renewal.due, {})) {
    std::vector<Part>& parts = by_node.emplace_back();
    for (auto& [how, indices] : ways) parts.push_back({node, how, std::move(indices)});
  }
  renewal.pauses = false;
  const auto ask_node = [&renewal](std::vector<Part>& parts) {
    for (Part& part : parts) {
      std::vector<port::RenewItem> items;
      for (const std::size_t index : part.indices) items.push_back(renewal.items[index]);
      part.answers = part.node->server->renewer().ask(items, renewal.deadline, part.how);
    }
  };
  // A server that does not answer must not delay the others.
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < by_node.size(); ++i) {
    try {
      threads.push_back(base::start_thread("holdfast-renew", [&, i] { ask_node(by_node[i]); }));
    } catch (const std::system_error&) {  // There is no thread to be had.
      ask_node(by_node[i]);
    }
  }
  ask_node(by_node.front());
  for (std::thread& each : threads) each.join();

  for (std::vector<Part>& parts : by_node) {
    for (Part& part : parts) take_answers(renewal, part);
  }
}

void Cluster::take_answers(Renewal& renewal, RenewalPart& part) {
  if (!part.answers) on_loop([this] { suspect(); });
  for (std::size_t i = 0; i < part.indices.size(); ++i) {
    const std::size_t index = part.indices[i];
    Node& owner = node_of(requests_.slot_of(renewal.items[index].name));
    if (!part.answers) {
      renewal.states[index] = part.answers.error();
      if (&owner != part.node) renewal.ask(owner, How::kAlone, index);
      continue;
    }
    Renewer::Answer& answer = (*part.answers)[i];
    renewal.states[index] = std::move(answer.state);
    if (!answer.redirection.empty()) {
      follow(renewal, index, *part.node, answer.redirection);
    } else if (&owner != part.node && part.how != How::kAfterAsk) {
      // The answer of an old owner extends nothing.
      renewal.states[index] =
          Error(Errc::kOutcomeUnknown, where_ + ": the slot has moved meanwhile");
      renewal.ask(owner, How::kAlone, index);
    }
  }
}

void Cluster::follow(Renewal& renewal, std::size_t index, Node& node,
                     const std::string& redirection) {
  const std::uint16_t slot = requests_.slot_of(renewal.items[index].name);
  const bool moved = redirection.starts_with("MOVED");
  const bool asks = redirection.starts_with("ASK");
  renewal.states[index] =
      Error(Errc::kUnavailable, where_ + ": the slot of the lock is moving: retry");
  const auto to = moved || asks ? redirected_to(redirection)
                                : Result<NodeAddress>(Error(Errc::kUnavailable, ""));
  const bool learns = moved && &node_of(slot) == &node;
  if (to && (asks || learns)) {
    auto next = node_at(*to, node);
    if (!next) {
      renewal.states[index] = next.error();
      return;
    }
    if (asks) return renewal.ask(**next, How::kAfterAsk, index);
    const BootInstant most = BootClock::now() + kLongestLearning;
    learn_and_wait(**next, slot, std::min(renewal.deadline, most));
  }
  renewal.pauses = renewal.pauses || &node_of(slot) == &node;
  renewal.ask(node_of(slot), How::kAlone, index);
}

void Cluster::learn_and_wait(Node& node, std::uint16_t slot, BootInstant until) {
  struct Answer {
    base::LocalMutex mutex;
    base::LocalCondition changed;
    bool given HOLDFAST_GUARDED_BY(mutex) = false;
  };
  auto answer = std::make_shared<Answer>();
  on_loop([this, answer, &node, slot] {
    learn(node, slot, [answer](const Result<void>&) {
      const base::LocalLock lock(answer->mutex);
      answer->given = true;
      answer->changed.notify_all();
    });
  });
  const base::LocalLock lock(answer->mutex);
  while (!answer->given) {
    const auto left = until - BootClock::now();
    if (left <= left.zero()) return;
    answer->changed.wait_for(answer->mutex, left);
  }
}

void Cluster::give_up_renewal() noexcept {
  gave_up_ = true;
  for (const Node* node : all_nodes()) node->server->renewer().give_up();
}

}  // namespace holdfast::stores::redis
