#include "src/stores/redis/cluster/cluster.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include <asio/post.hpp>

#include "src/base/random.h"
#include "src/port/url_parts.h"
#include "src/stores/redis/protocol/errors.h"
#include "src/stores/redis/protocol/keys.h"
#include "src/stores/redis/transport/loop_link.h"

namespace holdfast::stores::redis {
namespace {

using base::BootClock;
using base::BootInstant;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kPoll{2};
// After a failure all nodes are asked this often, for so long.
constexpr milliseconds kHurriedPoll{200};
constexpr std::chrono::seconds kHurry{10};
constexpr milliseconds kBetweenQuestions{50};
constexpr milliseconds kPause{20};
constexpr int kMostRedirections = 5;
constexpr std::chrono::milliseconds kGreetsWithin{300};
constexpr int kMostNamesTried = 10'000;
// A node that does not tell the slots in this time is not waited for.
constexpr std::chrono::seconds kAnswersWithin{2};

Error closed_error() { return {Errc::kClosed, "the redis store was closed"}; }

// An end by an old owner needs no other answer: it extends nothing.
bool counts_when_late(const ScriptCall& script) {
  return script.reads_only() || script.name() == ScriptName::kEnd;
}

}  // namespace

Cluster::Cluster(asio::io_context& io, RemotePtr remote, const Requests& requests,
                 std::string name_space, Events events)
    : io_(io),
      remote_(std::move(remote)),
      requests_(requests),
      name_space_(std::move(name_space)),
      events_(std::move(events)),
      where_(remote_->address.display()),
      timer_(io) {}

// --- Nodes.

Result<Cluster::Node*> Cluster::node_at(const NodeAddress& at, const Node& told_by) {
  const bool by_name = !at.name.empty() && (remote_->address.tls || at.host.empty());
  const std::string& host = by_name ? at.name : at.host;
  return node_at(host.empty() ? told_by.server->remote().address.host : host, at.port);
}

Result<Cluster::Node*> Cluster::node_at(const std::string& host, std::uint16_t port) {
  const std::string key = port::Endpoint{host, port}.text();
  const auto known = [&]() -> Node* {
    const base::LocalLock lock(nodes_mutex_);
    const auto found = nodes_.find(key);
    return found == nodes_.end() ? nullptr : found->second.get();
  };
  if (Node* const node = known()) return node;
  // Without the mutex, because connections that go wait for the loop.
  try {
    auto made = make_node(host, port);
    made->key = key;
    const base::LocalLock lock(nodes_mutex_);
    return nodes_.try_emplace(key, std::move(made)).first->second.get();
  } catch (const std::system_error& error) {
    return Error(Errc::kUnavailable, where_ + ": cannot connect to " + key + ": " + error.what());
  }
}

std::unique_ptr<Cluster::Node> Cluster::make_node(const std::string& host, std::uint16_t port) {
  auto node = std::make_unique<Node>();
  auto remote = std::make_shared<Remote>(*remote_);
  remote->address.host = host;
  remote->address.port = port;
  remote->address.nodes.clear();
  node->primary = std::make_shared<NodePrimary>(remote->address);
  remote->primary = node->primary;
  Confirmation confirmation{remote->address.replicas, remote->address.replicas_timeout};
  confirmation.key_now = [node = node.get()] {
    const base::LocalLock key_lock(node->mutex);
    return node->confirmation_key;
  };
  node->server = std::make_unique<Connections>(
      std::move(remote),
      Connections::Setup{io_, requests_, std::move(confirmation), channel_of(requests_.client()),
                    events_of(*node), events_.on_alarm});
  return node;
}

std::vector<Cluster::Node*> Cluster::all_nodes() const {
  const base::LocalLock lock(nodes_mutex_);
  std::vector<Node*> all;
  for (const auto& [key, node] : nodes_) all.push_back(node.get());
  return all;
}

std::vector<Connections*> Cluster::owners() const {
  std::set<Node*> nodes;
  for (const Slot& slot : slots_) nodes.insert(slot.owner.load(std::memory_order_acquire));
  std::vector<Connections*> servers;
  for (const Node* node : nodes) servers.push_back(node->server.get());
  return servers;
}

void Cluster::with_all(std::function<void(const std::vector<Connections*>&)> then) {
  asio::post(io_, [self = shared_from_this(), then = std::move(then)] {
    std::set<Connections*> all;
    if (self->shut_) return then({});
    for (Connections* each : self->owners()) all.insert(each);
    for (const NodeAddress& each : self->known_) {
      if (auto node = self->node_at(each, self->node_of(0))) all.insert((*node)->server.get());
    }
    then({all.begin(), all.end()});
  });
}

void Cluster::greet_all(const std::string& name, BootInstant deadline) {
  std::set<Connections*> greeted;
  const std::size_t all = owners().size();
  for (int i = 0; greeted.size() < all && i < kMostNamesTried; ++i) {
    const ScriptCall rights =
        requests_.call(ScriptName::kRights, name + std::to_string(i), {});
    Connections& server = owner(rights.slot());
    if (!greeted.insert(&server).second) continue;
    const BootInstant most = BootClock::now() + kGreetsWithin;
    static_cast<void>(server.greet(rights, std::min(deadline, most)));
  }
}

Result<void> Cluster::open(BootInstant deadline) {
  struct Opening {
    base::LocalMutex mutex;
    base::LocalCondition changed;
    std::size_t unanswered HOLDFAST_GUARDED_BY(mutex) = 0;
    bool mapped HOLDFAST_GUARDED_BY(mutex) = false;
    std::optional<Error> failure HOLDFAST_GUARDED_BY(mutex);
  };
  auto opening = std::make_shared<Opening>();
  const base::LocalLock lock(opening->mutex);
  opening->unanswered = remote_->address.nodes.size();
  on_loop([this, opening] {
    const auto note = [opening](const Result<void>& learned) {
      const base::LocalLock inner(opening->mutex);
      --opening->unanswered;
      opening->mapped = opening->mapped || learned;
      if (!learned && !opening->failure) opening->failure = learned.error();
      opening->changed.notify_all();
    };
    for (const port::Endpoint& each : remote_->address.nodes) {
      auto node = node_at(each.host, each.port);
      if (!node) {
        note(node.error());
      } else {
        learn(**node, std::nullopt, note);
      }
    }
  });
  while (!opening->mapped && opening->unanswered > 0) {
    const auto left = deadline - BootClock::now();
    if (left <= left.zero()) break;
    opening->changed.wait_for(opening->mutex, left);
  }
  if (opening->mapped) return {};
  if (!opening->failure) {
    return Error(Errc::kUnavailable, where_ + ": no node has answered in time");
  }
  return Error(opening->failure->code(),
               where_ + ": no node tells the slots: " + opening->failure->message());
}

// --- Requests.

void Cluster::run(ScriptCall script, bool confirmed, BootInstant deadline,
                  Connections::DoneConfirmed done) {
  auto call = std::make_shared<Call>();
  call->slot = script.slot();
  call->script = std::move(script);
  call->confirmed = confirmed;
  call->deadline = deadline;
  call->done = std::move(done);
  send(call, node_of(call->slot), Connections::Prefix::kNone);
}

void Cluster::read(std::uint16_t slot, std::vector<std::string> words, BootInstant deadline,
                   port::Done<Reply> done) {
  auto call = std::make_shared<Call>();
  call->slot = slot;
  call->words = std::move(words);
  call->deadline = deadline;
  call->done = [done = std::move(done)](Result<Reply> reply, const Missing&) {
    done(std::move(reply));
  };
  send(call, node_of(slot), Connections::Prefix::kNone);
}

std::optional<Result<Reply>> Cluster::run_here(const ScriptCall& script, BootInstant deadline,
                                               bool pushes_first) {
  Node& node = node_of(script.slot());
  auto reply = node.server->run_here(script, deadline, pushes_first);
  if (!reply) return std::nullopt;
  if (!*reply) {
    on_loop([this] { suspect(); });
    return reply;
  }
  if (is_redirection((*reply)->error_word())) return std::nullopt;
  if (&node != &node_of(script.slot()) && !counts_when_late(script)) {
    return Result<Reply>(Error(Errc::kOutcomeUnknown, where_ + ": the slot has moved meanwhile"));
  }
  return reply;
}

void Cluster::send(const CallPtr& call, Node& node, Connections::Prefix prefix) {
  auto then = [this, call, &node, prefix](Result<Reply> reply, const Missing& missing) {
    answered(call, node, prefix, std::move(reply), missing);
  };
  if (!call->script) {
    const std::vector<std::string_view> words(call->words.begin(), call->words.end());
    return node.server->read(
        words, call->deadline, [then](Result<Reply> reply) { then(std::move(reply), {}); }, prefix);
  }
  if (call->confirmed && prefix == Connections::Prefix::kNone) {
    return node.server->run_confirmed(*call->script, call->deadline, std::move(then));
  }
  node.server->run(
      std::shared_ptr<const ScriptCall>(call, &*call->script), call->deadline,
      [then = std::move(then)](Result<Reply> reply) { then(std::move(reply), {}); }, prefix);
}

void Cluster::answered(const CallPtr& call, Node& node, Connections::Prefix prefix,
                       Result<Reply> reply, const Missing& missing) {
  if (reply && is_redirection(reply->error_word()) && !shut_) {
    return redirected(call, node, reply->text);
  }
  const bool current = &node == &node_of(call->slot) || prefix == Connections::Prefix::kAsking;
  if (!reply && reply.error().code() != Errc::kClosed) suspect();
  // It was never sent, and by now there is another server to send it to.
  if (!reply && reply.error().code() == Errc::kUnavailable && !current && !shut_) {
    return send(call, node_of(call->slot), Connections::Prefix::kNone);
  }
  if (reply && !current && call->script && !counts_when_late(*call->script)) {
    return call->done(Error(Errc::kOutcomeUnknown, where_ + ": the slot has moved meanwhile"), {});
  }
  call->done(std::move(reply), missing);
}

void Cluster::redirected(const CallPtr& call, Node& node, const std::string& text) {
  const bool moved = text.starts_with("MOVED");
  const bool asks = text.starts_with("ASK");
  const bool often = (moved || asks) && ++call->redirections > kMostRedirections;
  if (often || BootClock::now() + 2 * kPause >= call->deadline) {
    return call->done(Error(Errc::kUnavailable, where_ + ": the slot of the lock is moving (" +
                                                    text.substr(0, 80) + "): retry"),
                      {});
  }
  const auto to = moved || asks ? redirected_to(text) : Result<NodeAddress>(closed_error());
  if (moved && &node_of(call->slot) != &node) {
    return send(call, node_of(call->slot), Connections::Prefix::kNone);
  }
  // A confirmation needs a connection of its own, to which no ASKING goes: it waits for the move.
  const bool confirms = call->confirmed && node.server->confirms();
  auto next = to && (moved || !confirms) ? node_at(*to, node) : Result<Node*>(nullptr);
  if (!next) return call->done(next.error(), {});
  if (moved && to) {
    return learn(**next, call->slot, [this, call, &node](const Result<void>&) {
      if (&node_of(call->slot) == &node) return resend_after(kPause, call);
      send(call, node_of(call->slot), Connections::Prefix::kNone);
    });
  }
  if (*next != nullptr) return send(call, **next, Connections::Prefix::kAsking);
  if (confirms) --call->redirections;
  if (text.starts_with("CLUSTERDOWN")) suspect();
  resend_after(kPause, call);
}

void Cluster::resend_after(milliseconds pause, const CallPtr& call) {
  if (shut_) return call->done(closed_error(), {});
  after(pause, [this, call] {
    if (shut_) return call->done(closed_error(), {});
    send(call, node_of(call->slot), Connections::Prefix::kNone);
  });
}

// --- The owners.

// `claimed`: the owner of this slot has said that `node` owns it now.
void Cluster::learn(Node& node, std::optional<std::uint16_t> claimed, Then then) {
  if (shut_) return then(closed_error());
  if (claimed) node.claimed.push_back(*claimed);
  node.asking.push_back(std::move(then));
  if (node.asking.size() > 1) return;
  const BootInstant deadline =
      BootClock::now() + std::min<BootClock::duration>(kAnswersWithin,
                                                       remote_->address.connect_timeout);
  node.server->read({"CLUSTER", "NODES"}, deadline, [this, &node](Result<Reply> reply) {
    Result<void> learned;
    reply = checked(std::move(reply), node.server->where(), /*reads_only=*/true);
    if (!reply) {
      const bool single = reply.error().message().find("cluster support disabled") !=
                          std::string::npos;
      learned = single ? Error(Errc::kInvalidArgument,
                               node.server->where() + " is no node of a cluster: use redis://")
                       : reply.error();
    } else if (const auto view = parse_cluster_nodes(reply->text); !view) {
      learned = view.error();
    } else if (!shut_) {
      learned = adopt(*view, node);
    }
    if (learned && !mapped_) {
      learned = Error(Errc::kUnavailable, node.server->where() + ": no slots are assigned");
    }
    node.claimed.clear();
    std::vector<Then> asking;
    asking.swap(node.asking);
    for (const Then& each : asking) each(learned);
  });
}

bool Cluster::take_slot(std::uint16_t slot, Node& node, std::uint64_t epoch, bool agreed) {
  Slot& place = slots_[slot];
  Node* const before = place.owner.load(std::memory_order_acquire);
  if (before == &node) {
    place.epoch = std::max(place.epoch, epoch);
    return false;
  }
  if (before != nullptr && epoch < place.epoch && !agreed) return false;
  place.epoch = epoch;
  node.primary->serve();
  place.owner.store(&node, std::memory_order_release);
  return before != nullptr;
}

Result<void> Cluster::adopt(const std::vector<ClusterNode>& view, Node& told_by) {
  Result<void> adopted;
  std::set<std::uint16_t> changed;
  std::vector<NodeAddress> known;
  Node* any = nullptr;
  for (const ClusterNode& each : view) {
    if (!each.failed) known.push_back(each.at);
    if (!each.is_primary || each.slots.empty()) continue;
    auto found = node_at(each.at, told_by);
    if (!found) {
      adopted = found.error();
      continue;
    }
    Node& node = **found;
    any = &node;
    for (const auto& [first, last] : each.slots) {
      for (unsigned int slot = first; slot <= last; ++slot) {
        const auto number = static_cast<std::uint16_t>(slot);
        const bool agreed = each.is_asked && std::count(told_by.claimed.begin(),
                                                        told_by.claimed.end(), number) > 0;
        if (take_slot(number, node, each.epoch, agreed)) changed.insert(number);
      }
    }
  }
  if (!known.empty()) known_ = std::move(known);
  if (any == nullptr) return adopted;
  // A slot without an owner is asked for anywhere: the server says who has it, or that nobody has.
  for (Slot& each : slots_) {
    Node* none = nullptr;
    each.owner.compare_exchange_strong(none, any);
  }
  const bool first = !std::exchange(mapped_, true);
  if (first || !changed.empty()) after_changes(changed);
  if (first) poll();
  return adopted;
}

void Cluster::after_changes(const std::set<std::uint16_t>& changed) {
  std::set<Node*> owners;
  for (const Slot& each : slots_) owners.insert(each.owner.load(std::memory_order_acquire));
  bool retired = false;
  for (Node* node : all_nodes()) {
    const bool owns = owners.contains(node);
    if (std::exchange(node->owns, owns) && !owns) {
      retired = true;
      node->primary->retire();
      events_.on_alarm(where_ + ": " + node->key +
                       " serves no slots any more; others serve them. If it was a fail-over, what "
                       "they do not know of is lost");
    }
  }
  choose_confirmation_keys();
  for (auto& [name, channel] : channels_) {
    if (changed.contains(channel.slot)) place(name, channel);
  }
  if (changed.empty()) return;
  if (retired) events_.on_missed();
  missed_soon();
}

// Another slot each time, because one that is moving refuses the write.
void Cluster::choose_confirmation_keys() {
  if (remote_->address.replicas == 0) return;
  const std::size_t from = base::random_128().low % kSlots;
  std::set<Node*> done;
  for (std::size_t i = 0; i < kSlots; ++i) {
    const auto slot = static_cast<std::uint16_t>((from + i) % kSlots);
    Node& node = node_of(slot);
    if (!done.insert(&node).second) continue;
    const std::string space = name_space_.empty() ? "" : name_space_ + "/";
    const std::string key = record_key(name_in_slot(space + "@confirmed", slot)) + ":r";
    const base::LocalLock lock(node.mutex);
    node.confirmation_key = key;
  }
}

// Something failed: a node may be down, and another may have taken its slots.
void Cluster::suspect() {
  const BootInstant now = BootClock::now();
  if (shut_ || !mapped_) return;
  const bool hurries = now < hurries_until_;
  hurries_until_ = now + kHurry;
  if (!hurries || now - asked_all_ > kHurriedPoll) poll();
}

void Cluster::poll() {
  const BootInstant now = BootClock::now();
  const std::uint64_t turn = ++turn_;
  const bool hurries = now < hurries_until_;
  const auto ignore = [](const Result<void>&) {};
  if (hurries && now - asked_all_ > kBetweenQuestions) {
    asked_all_ = now;
    Node& any = node_of(0);
    std::vector<NodeAddress> known = known_;
    for (const port::Endpoint& each : remote_->address.nodes) {
      known.push_back({each.host, each.port});
    }
    for (const NodeAddress& each : known) {
      auto node = node_at(each, any);
      if (node && !(*node)->primary->retired()) learn(**node, std::nullopt, ignore);
    }
  } else if (!hurries) {
    const std::vector<Node*> nodes = all_nodes();
    Node& node = *nodes[turn % nodes.size()];
    learn(node.owns ? node : node_of(static_cast<std::uint16_t>(turn % kSlots)), std::nullopt,
          ignore);
    choose_confirmation_keys();
  }
  after(hurries ? std::chrono::nanoseconds(kHurriedPoll) : std::chrono::nanoseconds(kPoll),
        [this, turn] {
          if (turn == turn_ && !shut_) poll();
        });
}

// --- The loop.

void Cluster::on_loop(std::function<void()> task) {
  asio::post(io_, [weak = weak_from_this(), task = std::move(task)] {
    const auto self = weak.lock();
    if (self != nullptr && !self->shut_) task();
  });
}

void Cluster::after(std::chrono::nanoseconds pause, std::function<void()> task) {
  const BootInstant at = BootClock::now() + pause;
  const auto place = due_.emplace(at, std::move(task));
  if (place == due_.begin() && !shut_) timer_.arm_at(at, [this] { run_due(); });
}

void Cluster::run_due() {
  const BootInstant now = BootClock::now();
  while (!due_.empty() && due_.begin()->first <= now) {
    const auto task = std::move(due_.begin()->second);
    due_.erase(due_.begin());
    task();
  }
  if (!due_.empty() && !shut_) timer_.arm_at(due_.begin()->first, [this] { run_due(); });
}

void Cluster::shut() {
  shut_ = true;
  timer_.stop();
  // The requests that wait here complete as closed.
  std::multimap<BootInstant, std::function<void()>> due;
  due.swap(due_);
  for (const auto& [at, task] : due) task();
  due_.clear();
  for (auto& [name, channel] : channels_) {
    for (const auto& each : std::exchange(channel.waiters, {})) each(closed_error());
  }
}

void Cluster::close() {
  if (abandoned_ || closed_.exchange(true)) return;
  run_on_loop(io_, [this] { shut(); });
  for (Node* node : all_nodes()) node->server->close();
}

void Cluster::abandon() noexcept {
  abandoned_ = true;
  for (const auto& [key, node] : nodes_) node->server->abandon();
  timer_.abandon();
}

}  // namespace holdfast::stores::redis
