// The servers of a Redis Cluster: which one owns a slot, and how requests, renewals and pushes
// follow a slot that moves. docs/design/0055-redis-cluster.md says why.
//
// Guarantee: an answer counts only if its server still owned the slot when the answer came. A
// grant or renewal of another server is kOutcomeUnknown, and its pushes are hints. kUnavailable: no
// server did anything. An owner is replaced only by one with an epoch that is not lower, or one
// that the owner itself names.
// Not guaranteed: that a promoted replica has what its primary had.
//
// Thread-safety: safe; the events are called on the loop. close() from any thread but the loop.
// Ownership: the io_context outlives it, and runs until after close(). Servers live as long as it.
// Blocking: open() and renew(), until their deadlines.
// Errors: those of the connections; kInvalidArgument: no node of a cluster.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <asio/io_context.hpp>

#include "src/base/local_mutex.h"
#include "src/port/boot_timer.h"
#include "src/stores/redis/cluster/cluster_view.h"
#include "src/stores/redis/cluster/node_primary.h"
#include "src/stores/redis/connections.h"

namespace holdfast::stores::redis {

class Cluster final : public std::enable_shared_from_this<Cluster> {
 public:
  struct Events {
    // `current`: the server owns the slot.
    std::function<void(std::string_view payload, bool current)> on_push;
    std::function<void(const std::string& channel)> on_value;
    std::function<void()> on_missed;  // Pushes may have been missed.
    std::function<void(std::string line)> on_alarm;
  };

  // `remote`: what all nodes have in common.
  Cluster(asio::io_context& io, RemotePtr remote, const Requests& requests, std::string name_space,
          Events events);
  ~Cluster() { close(); }

  // Asks the nodes of the URL for the slots.
  Result<void> open(base::BootInstant deadline);

  // Asks each of them for the rights on a lock whose name begins like this. A failure here comes
  // again with the first request, which reports it.
  void greet_all(const std::string& name, base::BootInstant deadline);

  Connections& owner(std::uint16_t slot) const noexcept { return *node_of(slot).server; }
  // The servers that own slots.
  std::vector<Connections*> owners() const;
  // Calls it on the loop, with all nodes that are known: primaries and replicas. Closed: none.
  void with_all(std::function<void(const std::vector<Connections*>&)> then);

  void run(ScriptCall script, bool confirmed, base::BootInstant deadline,
           Connections::DoneConfirmed done);
  // As Connections::run_here(). nullopt also if the request must go elsewhere: run() does that.
  std::optional<Result<Reply>> run_here(const ScriptCall& script, base::BootInstant deadline,
                                        bool pushes_first);
  void read(std::uint16_t slot, std::vector<std::string> words, base::BootInstant deadline,
            port::Done<Reply> done);

  Result<std::vector<Result<port::AcquisitionState>>> renew(
      const std::vector<port::RenewItem>& items, base::BootInstant deadline);
  void give_up_renewal() noexcept;

  // Whether grants in this slot are pushed to this client. A hint.
  bool subscribed(std::uint16_t slot) const noexcept { return subscribed_[slot]; }
  void subscribe(std::uint16_t slot, base::BootInstant deadline, port::Done<void> done);
  // The channel of a value, until leave().
  void join(const std::string& channel);
  void leave(const std::string& channel);

  void close();
  void abandon() noexcept HOLDFAST_NO_TSA;  // The child has one thread.

 private:
  using Then = std::function<void(const Result<void>&)>;
  struct Node {
    std::string key;  // Its address.
    std::shared_ptr<NodePrimary> primary;
    std::unique_ptr<Connections> server;
    bool owns = false;         // On the loop, as are the next two.
    std::vector<Then> asking;  // They wait for its answer to CLUSTER NODES.
    std::vector<std::uint16_t> claimed;  // Others have said that it owns these.
    base::LocalMutex mutex;
    std::string confirmation_key HOLDFAST_GUARDED_BY(mutex);
  };
  struct Slot {
    std::atomic<Node*> owner{nullptr};
    std::uint64_t epoch = 0;  // On the loop.
  };
  // A request that follows redirections.
  struct Call {
    std::optional<ScriptCall> script;
    std::vector<std::string> words;  // Without a script: what is read.
    std::uint16_t slot = 0;
    bool confirmed = false;
    base::BootInstant deadline{};
    Connections::DoneConfirmed done;
    int redirections = 0;
  };
  using CallPtr = std::shared_ptr<Call>;
  struct Channel {
    std::uint16_t slot = 0;
    bool is_value = false;
    Node* at = nullptr;
    bool confirmed = false;
    bool was_confirmed = false;
    std::vector<port::Done<void>> waiters{};
  };
  struct Renewal;
  struct RenewalPart;

  Node& node_of(std::uint16_t slot) const noexcept {
    return *slots_[slot].owner.load(std::memory_order_acquire);
  }
  // Errors: kUnavailable (no descriptor for the timers of its connections).
  Result<Node*> node_at(const NodeAddress& at, const Node& told_by);
  Result<Node*> node_at(const std::string& host, std::uint16_t port);
  std::unique_ptr<Node> make_node(const std::string& host, std::uint16_t port);
  std::vector<Node*> all_nodes() const;
  Subscriber::Events events_of(Node& node);

  void send(const CallPtr& call, Node& node, Connections::Prefix prefix);
  void answered(const CallPtr& call, Node& node, Connections::Prefix prefix,
                Result<Reply> reply, const Missing& missing);
  void redirected(const CallPtr& call, Node& node, const std::string& text);
  void resend_after(std::chrono::milliseconds pause, const CallPtr& call);

  void learn(Node& node, std::optional<std::uint16_t> claimed, Then then);
  // Errors: those of node_at(); the rest of the view is adopted.
  Result<void> adopt(const std::vector<ClusterNode>& view, Node& told_by);
  bool take_slot(std::uint16_t slot, Node& node, std::uint64_t epoch, bool agreed);
  void after_changes(const std::set<std::uint16_t>& changed);
  void choose_confirmation_keys();
  void suspect();
  void poll();

  void renew_round(Renewal& renewal);
  void take_answers(Renewal& renewal, RenewalPart& part);
  void follow(Renewal& renewal, std::size_t index, Node& node, const std::string& redirection);
  void learn_and_wait(Node& node, std::uint16_t slot, base::BootInstant until);

  void subscribe_on_loop(std::uint16_t slot, base::BootInstant deadline,
                         const port::Done<void>& done);
  void place(const std::string& name, Channel& channel);
  void on_joined(Node& node, const std::string& name);
  void on_dropped(Node& node, const std::string& name, const Error& why);
  void on_lost(Node& node, const Error& why);
  void set_confirmed(Channel& channel, bool confirmed);
  void missed_soon();

  void on_loop(std::function<void()> task);
  void after(std::chrono::nanoseconds pause, std::function<void()> task);
  void run_due();
  void shut();

  asio::io_context& io_;
  const RemotePtr remote_;
  const Requests& requests_;
  const std::string name_space_;
  const Events events_;
  const std::string where_;
  std::array<Slot, kSlots> slots_;
  std::array<std::atomic<bool>, kSlots> subscribed_{};
  mutable base::LocalMutex nodes_mutex_;
  std::map<std::string, std::unique_ptr<Node>> nodes_ HOLDFAST_GUARDED_BY(nodes_mutex_);
  std::atomic<bool> gave_up_{false};
  std::atomic<bool> closed_{false};
  bool abandoned_ = false;

  // On the loop.
  std::map<std::string, Channel> channels_;
  std::vector<NodeAddress> known_;  // All nodes of the last view.
  std::multimap<base::BootInstant, std::function<void()>> due_;
  port::BootTimer timer_;
  base::BootInstant hurries_until_{};
  base::BootInstant asked_all_{};
  bool mapped_ = false;
  bool missed_due_ = false;
  std::size_t turn_ = 0;
  bool shut_ = false;
};

}  // namespace holdfast::stores::redis
