// The N nodes: their connections, their membership, and the way back of a node that lost its
// memory.
//
// A node counts once this client has joined it: it is a primary, belongs to this cluster, and no
// other address leads to the same process. A node answers `lost` when its record is not of the
// memory that it runs with; then it is joined anew, which begins its quarantine. When that is over,
// the first client that finds out looks at all nodes again and hands the node the floor (quorum.h).
//
// Guarantee: no request reaches another process than the one that was joined, or it is refused
// there. kUnavailable: surely nothing was done. kOutcomeUnknown: the node has not answered.
// Thread-safety: the loop only, but for the constructor, close() and abandon().
// Ownership: the loop and the events outlive it. Time: boot time.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/clock.h"
#include "src/port/boot_timer.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/stores/redis/transport/pipeline.h"
#include "src/stores/redis/transport/subscriber.h"
#include "src/stores/redlock/quorum.h"
#include "src/stores/redlock/url.h"

namespace holdfast::stores::redlock {

enum class Script : std::uint8_t { kTake, kHold, kNode };

using TestClock = std::function<machine::Instant()>;

class Nodes {
 public:
  struct NodeEvents {
    std::function<void(std::string line)> on_alarm;
    // Something was released: the key of the lock.
    std::function<void(std::size_t node, std::string_view key)> on_hint;
  };
  using Answered = std::function<void(Result<redis::Reply>)>;
  using Args = std::initializer_list<std::string_view>;

  Nodes(const RedlockAddress& address, const port::StoreContext& context, NodeEvents events,
        TestClock now);
  ~Nodes();

  // Joins all nodes, and calls `done` once a majority has joined, or the others cannot be reached.
  void open(base::BootInstant deadline, port::Done<bool> done);
  // Without the quarantine, because an operator says that nobody holds a lock. False: a node takes
  // part already, and nothing was done.
  void initialize(base::BootInstant deadline, port::Done<bool> done);

  std::size_t size() const { return nodes_.size(); }
  std::size_t majority() const { return majority_of(nodes_.size()); }
  const RedlockAddress& address() const { return address_; }
  const std::string& name_of(std::size_t node) const;
  static std::string key_of(std::string_view lock);

  struct Request;
  using RequestPtr = std::shared_ptr<const Request>;
  // A call of take.lua or hold.lua for a lock, with the words that the script names. It may go to
  // any nodes.
  RequestPtr request(Script script, std::string_view lock, Args words) const;
  // Requests that wait for the connection together become one batch. `answered` is called on the
  // loop, never inline.
  void call(std::size_t node, RequestPtr request, base::BootInstant deadline, Answered answered);
  // A command that changes nothing.
  void read(std::size_t node, const std::vector<std::string_view>& words,
            base::BootInstant deadline, Answered answered);
  // A script answered so: true where the node has to be joined anew.
  bool note(std::size_t node, std::string_view answer);
  // A floor that cannot be: the node is put into quarantine.
  bool is_plausible(std::size_t node, std::uint64_t floor);

  // Why no grant may be reported at all; nullopt: nothing is known against it.
  const std::optional<Error>& forbidden() const { return forbidden_; }
  // The reason why the node takes no part, for messages.
  std::string trouble(std::size_t node) const;
  struct Facts {
    bool joined = false;
    std::string run;
    NodeView view;
    std::string trouble;
  };
  Facts facts(std::size_t node) const;
  // "a:6379: ready; b:6379: ..."
  std::string outcomes(const std::vector<std::string>& each) const;

  void listen(const std::string& lock);
  void stop_listening(const std::string& lock);

  void shut();   // Begins nothing of its own any more.
  void close();  // After that, from a thread that is not the loop: ends what is under way.
  void abandon() noexcept;

 private:
  struct Node;
  using Joined = std::function<void(bool good)>;

  using Known = std::shared_ptr<const std::string>;
  void run(std::size_t at, RequestPtr request, Known known, base::BootInstant deadline,
           Answered answered);
  // node.lua.
  void ask(std::size_t at, Args words, base::BootInstant deadline, Answered answered);
  void join(std::size_t at, Joined joined);
  void on_joined(std::size_t at, const Result<redis::Reply>& reply);
  Errc why_too_few() const;
  void take_facts(Node& node, std::string_view text);
  void check_membership();
  void join_later(std::size_t at, base::BootClock::duration pause);
  void tend(std::size_t at);
  void catch_up_all();
  void end_round(base::BootClock::duration pause);
  void admit(std::uint64_t floor, bool by_operator, base::BootInstant deadline,
             port::Done<bool> done);
  std::vector<NodeView> views() const;

  const RedlockAddress address_;
  const NodeEvents events_;
  const TestClock now_;
  asio::io_context& io_;
  port::Loop* const loop_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::optional<Error> forbidden_;
  std::uint64_t plausible_ = 0;  // The highest floor that was found to be.
  bool catching_up_ = false;
  bool closed_ = false;
};

}  // namespace holdfast::stores::redlock
