// One handle of the ZooKeeper client library: requests with callbacks of ours, answered by tasks
// posted to the loop.
//
// Guarantee: every request is answered once, also when the link is closed (by then with ZCLOSING or
// an error of the connection); events and watches come on the loop, and none after close().
// Thread-safety: requests from the loop; close() from any thread that is not the library's.
// Blocking: open() looks names up, close() waits for the library's threads: not for the loop.
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
#include "src/stores/zookeeper/pending.h"

namespace holdfast::stores::zookeeper {

struct NodeStat {
  std::uint64_t created = 0;   // zxid
  std::uint64_t modified = 0;  // zxid
  std::int32_t version = 0;
  std::int32_t children_version = 0;
  std::int32_t length = 0;  // The length of its data.
};

struct Reply {
  int rc = 0;  // ZOK, ZNONODE ...
  std::string text{};
  NodeStat stat{};
  std::vector<std::string> names{};
};

// One part of a request that is applied as a whole or not at all.
struct Step {
  enum class Kind : std::uint8_t { kCheck, kSet, kCreate, kEnter, kRemove };
  Kind kind{};
  std::string path;  // kEnter: of a contender, without its number.
  std::string data{};
  std::int32_t version = -1;
};

enum class NodeKind : std::uint8_t { kPersistent, kContainer, kEphemeral, kContender };

enum class LinkEvent : std::uint8_t { kConnected, kDisconnected, kExpired, kAuthFailed };

class Link {
 public:
  struct Options {
    std::string servers;
    std::string auth;  // "user:password"; empty: none, and what is made is open to all.
    std::chrono::milliseconds session{};
  };
  // A continuation of a request. It drops the answer once the operation that asked is over: the
  // caller has been told by then, and the backend may have been freed. Only always() makes one
  // without an operation; such a continuation must own all that it touches.
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

  // nullptr: the library refused (errno says why).
  static std::shared_ptr<Link> open(const Options& options, port::Loop& loop,
                                    std::function<void(LinkEvent)> on_event);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Before the first request. false: the library takes no password between two attempts to connect.
  [[nodiscard]] bool log_in();

  void create(const std::string& path, const std::string& data, NodeKind kind, Done done);
  // `then_list`: whoever is woken lists that folder, which is asked for as soon as the news comes,
  // ahead of the loop: children() answers with that where the waker calls it without a waker.
  void get(const std::string& path, const contend::WakerPtr& waker, Done done,
           const std::string& then_list = {});
  void children(const std::string& path, const contend::WakerPtr& waker, Done done);
  void set(const std::string& path, const std::string& data, std::int32_t version, Done done);
  void remove(const std::string& path, Done done);
  void sync(const std::string& path, Done done);
  // In the reply, `stat` is that of the first kSet, and `names` are the paths of the contenders
  // that were created, in the order of their steps. Why one step was refused is the answer of all.
  void multi(std::vector<Step> steps, Done done);

  std::uint64_t session_id() const;
  std::chrono::milliseconds session_length() const;
  // Whether the request for the session may have been sent.
  bool asked() const;
  std::string server() const;  // The one it is connected to; for people.
  // Connects to another of the servers, if there is one.
  void leave_server();

  void close();
  // In a forked child: the threads are the parent's.
  void abandon() noexcept;

 private:
  struct State;
  explicit Link(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::stores::zookeeper
