// The client's store session at ZooKeeper. It opens the session, keeps it, reports its end, and
// opens the next.
//
// Guarantee: at most one session at a time; after on_ended() of an epoch, nothing of that epoch
// counts as alive. A session that ended without a connection is closed as soon as a server answers,
// unless close() comes first. Not guaranteed: this closing when the server stood still, because it
// may lose the request. Then the nodes may stay for one more session length. Thread-safety: the
// loop, except close().
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/contend/backend.h"
#include "src/contend/loop_timer.h"
#include "src/port/registry.h"
#include "src/stores/zookeeper/session/session_deadline.h"
#include "src/stores/zookeeper/transport/link.h"
#include "src/stores/zookeeper/transport/pending.h"
#include "src/stores/zookeeper/url.h"

namespace holdfast::stores::zookeeper {

class StoreSession : public std::enable_shared_from_this<StoreSession> {
 public:
  StoreSession(ZookeeperAddress address, const port::StoreContext& context);

  void start(contend::Events* events) { events_ = events; }
  contend::SessionView view() const;
  std::string tag() const { return tag_; }
  const ZookeeperAddress& address() const { return address_; }
  // From any thread. The requested length until there has been a session.
  std::chrono::milliseconds agreed_length() const { return agreed_length_; }

  // Grows when a connection is made or lost.
  std::uint64_t connections() const { return connections_; }

  // Opens a session if there is none. Runs the task once a session is connected, unless `pending`
  // is over by then.
  void when_ready(std::shared_ptr<PendingBase> pending, std::function<void()> then);
  // Finds the shortest session that the servers grant, by asking for one. It is two of their ticks
  // unless minSessionTimeout differs. `told` is not called if they do not answer.
  void ask_least(std::function<void(std::chrono::milliseconds)> told);
  // Whether when_ready() would run it now.
  bool can_ask() const { return ready_ && connected_ && !stopped_; }
  // Valid in tasks of when_ready().
  Link& link() { return *link_; }
  // A node that only this client writes to and nobody watches. Needs a session.
  std::string own_node() const { return address_.base + "/sessions/" + tag_ + "-beat"; }
  Pendings& pendings() { return pendings_; }

  // On the loop. From now on every answer is kClosed.
  void stop();
  bool stopped() const { return stopped_; }
  // From another thread, after stop(). Ends the session at the store.
  void close();
  void abandon() noexcept;

 private:
  struct Waiting {
    std::shared_ptr<PendingBase> pending;
    std::function<void()> then;
  };

  void open();
  void opened(std::shared_ptr<Link> link, base::BootInstant at);
  void on_event(const std::shared_ptr<Link>& link, LinkEvent event);
  void make_nodes();
  void make_base(std::size_t from);
  void ready();
  void run_waiting();
  void fail_waiting(const Error& error);
  void watch_notifications();
  void end(const Error& why);
  void see_off(std::shared_ptr<Link> link);
  void retire(std::shared_ptr<Link> link);
  void beat();
  void on_beat(const std::shared_ptr<Link>& link, base::BootInstant sent, const Reply& reply);
  void on_timer();
  void arm();

  const ZookeeperAddress address_;
  port::Loop* loop_;
  contend::Events* events_ = nullptr;
  Pendings pendings_;
  contend::LoopTimer timer_;

  std::shared_ptr<Link> link_;
  std::vector<std::shared_ptr<Link>> leaving_;  // Links of sessions that have ended for us.
  std::shared_ptr<contend::Waker> notified_;
  std::uint64_t epoch_ = 0;  // The epoch of the current or last session.
  bool opening_ = false;
  bool connected_ = false;
  std::uint64_t connections_ = 0;
  bool making_ = false;
  bool ready_ = false;  // Its nodes exist.
  bool stopped_ = false;
  std::string tag_;
  std::atomic<std::chrono::milliseconds> agreed_length_;
  base::BootInstant asked_at_{};                          // No earlier request was sent.
  base::BootInstant look_at_ = base::BootInstant::max();  // While it is being opened.
  std::optional<SessionDeadline> session_deadline_;
  std::optional<base::BootInstant> beat_sent_;  // Set while one is under way.
  base::BootInstant beat_at_{};
  base::BootInstant left_at_{};  // When we last changed the server.
  std::list<Waiting> waiting_;
  // Threads that wait for the library instead of the loop.
  struct Helpers {
    std::mutex mutex;
    std::condition_variable changed;
    int running = 0;
  };
  void help(std::function<void()> work);
  std::shared_ptr<Helpers> helpers_ = std::make_shared<Helpers>();
};

}  // namespace holdfast::stores::zookeeper
