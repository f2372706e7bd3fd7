// One handle of the ZooKeeper client library. Requests go out with our callbacks, and tasks on the
// loop carry the answers.
//
// Guarantee: every request is answered once, at the latest by close() (with ZCLOSING or an error of
// the connection); events and watches come on the loop, and none after close().
// Thread-safety: requests from the loop; close() from any thread that is not the library's.
// Blocking: open() looks names up, and close() waits for the library's threads, so neither belongs
// on the loop.
// Ownership: the loop outlives the link.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/contend/backend.h"
#include "src/port/store.h"
#include "src/stores/zookeeper/transport/pending.h"

namespace holdfast::stores::zookeeper {

struct NodeStat {
  std::uint64_t created = 0;   // zxid
  std::uint64_t modified = 0;  // zxid
  std::int32_t version = 0;
  std::int32_t children_version = 0;
  std::int32_t length = 0;      // Length of the data.
  std::int64_t changed_ms = 0;  // When it was modified, by the leader's clock.
};

struct Reply {
  int rc = 0;  // ZOK, ZNONODE ...
  std::string text{};
  NodeStat stat{};
  std::vector<std::string> names{};
};

// One part of a batch, which the server applies as a whole or not at all.
struct Step {
  enum class Kind : std::uint8_t { kCheck, kSet, kCreate, kEnter, kRemove };
  Kind kind{};
  std::string path;  // For kEnter: a contender's path without its number.
  std::string data{};
  std::int32_t version = -1;
};

enum class NodeKind : std::uint8_t { kPersistent, kContainer, kEphemeral, kContender };

enum class LinkEvent : std::uint8_t { kConnected, kDisconnected, kExpired, kAuthFailed };

class Link {
 public:
  struct Options {
    std::string servers;
    std::string auth;  // "user:password"; if empty, created nodes are open to all.
    std::chrono::milliseconds session{};
  };
  // A continuation of a request. It drops the answer if the requesting operation is over: the
  // caller was answered by then, and the backend may have been freed. Only always() makes one
  // without an operation; such a continuation must own everything that it touches.
  class Done {
   public:
    Done() = default;
    Done(std::shared_ptr<const PendingBase> op, std::function<void(const Reply&)> then)
        : op_(std::move(op)), then_(std::move(then)) {}
    static Done always(std::function<void(const Reply&)> then) {
      return Done(nullptr, std::move(then));
    }
    static Done nothing() {
      return always([](const Reply&) {});
    }
    void operator()(const Reply& reply) const {
      if (!op_ || !op_->over()) then_(reply);
    }
    explicit operator bool() const { return then_ != nullptr; }

   private:
    std::shared_ptr<const PendingBase> op_;
    std::function<void(const Reply&)> then_;
  };

  // nullptr if the library refused; errno says why.
  static std::shared_ptr<Link> open(const Options& options, port::Loop& loop,
                                    std::function<void(LinkEvent)> on_event);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Call it before the first request. false: the library accepts no password between two attempts
  // to connect.
  [[nodiscard]] bool log_in();

  void create(const std::string& path, const std::string& data, NodeKind kind, Done done);
  // `then_list`: the woken waiter lists that folder. So the library's thread requests the listing
  // as soon as the watch fires, ahead of the loop. children() answers with it if the waiter calls
  // it without a waker.
  void get(const std::string& path, const contend::WakerPtr& waker, Done done,
           const std::string& then_list = {});
  void children(const std::string& path, const contend::WakerPtr& waker, Done done);
  void set(const std::string& path, const std::string& data, std::int32_t version, Done done);
  void remove(const std::string& path, Done done);
  void sync(const std::string& path, Done done);
  // In the reply, `stat` belongs to the first kSet, and `names` are the paths of the created
  // contenders in the order of their steps. A refused step makes its error the answer of the whole
  // batch.
  void multi(std::vector<Step> steps, Done done);

  std::uint64_t session_id() const;
  std::chrono::milliseconds session_length() const;
  // Whether the request for a session may have been sent.
  bool asked() const;
  std::string server() const;  // The connected one, for messages.
  // Connects to another server, if there is one.
  void leave_server();

  void close();
  // In a forked child, which has none of the library's threads.
  void abandon() noexcept;

 private:
  struct State;
  explicit Link(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::stores::zookeeper
