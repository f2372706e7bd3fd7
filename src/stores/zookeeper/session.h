// The session of a client with ZooKeeper: opens it, keeps it, tells its end, opens another.
//
// Guarantee: at most one session at a time; after on_ended() of an epoch, nothing of it is said to
// be alive. A session that ended while there was no connection is closed as soon as a server
// answers, unless close() comes before. Not guaranteed: that of one whose server stood still, as
// what it is told may be lost: its nodes may stay for a session's length more. Thread-safety: the
// loop, but for close().
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
#include "src/stores/zookeeper/link.h"
#include "src/stores/zookeeper/pending.h"
#include "src/stores/zookeeper/session_deadline.h"
#include "src/stores/zookeeper/url.h"

namespace holdfast::stores::zookeeper {

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(ZookeeperAddress address, const port::StoreContext& context);

  void start(contend::Events* events) { events_ = events; }
  contend::SessionView view() const;
  std::string tag() const { return tag_; }
  const ZookeeperAddress& address() const { return address_; }
  // From any thread. As it was asked for, until there has been a session.
  std::chrono::milliseconds agreed_length() const { return agreed_length_; }

  // Grows with each connection that is made or lost.
  std::uint64_t connections() const { return connections_; }

  // Runs it when there is a session that is connected, unless it is over by then. Opens one.
  void when_ready(std::shared_ptr<PendingBase> pending, std::function<void()> then);
  // Tells the shortest session that the servers grant, by asking for one: two of their ticks, where
  // minSessionTimeout does not say otherwise. Not told where they do not answer.
  void ask_least(std::function<void(std::chrono::milliseconds)> told);
  // Whether when_ready() would run it now.
  bool can_ask() const { return ready_ && connected_ && !stopped_; }
  // Valid in what when_ready() runs.
  Link& link() { return *link_; }
  // Written to by this client only, which nobody watches. With a session.
  std::string own_node() const { return address_.base + "/sessions/" + tag_ + "-beat"; }
  Pendings& pendings() { return pendings_; }

  // On the loop: no answer is given from here on but kClosed.
  void stop();
  bool stopped() const { return stopped_; }
  // From another thread, behind stop(): ends the session at the store.
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
  std::vector<std::shared_ptr<Link>> leaving_;  // Links of sessions that have ended here.
  std::shared_ptr<contend::Waker> notified_;
  std::uint64_t epoch_ = 0;  // The epoch of the session that runs, or ran last.
  bool opening_ = false;
  bool connected_ = false;
  std::uint64_t connections_ = 0;
  bool making_ = false;
  bool ready_ = false;  // Its nodes are made.
  bool stopped_ = false;
  std::string tag_;
  std::atomic<std::chrono::milliseconds> agreed_length_;
  base::BootInstant asked_at_{};                          // The session was not asked for before.
  base::BootInstant look_at_ = base::BootInstant::max();  // While it is being opened.
  std::optional<SessionDeadline> session_deadline_;
  std::optional<base::BootInstant> beat_sent_;  // One is under way.
  base::BootInstant beat_at_{};
  base::BootInstant left_at_{};  // When we last went to another server.
  std::list<Waiting> waiting_;
  // Threads that wait for the library, so that the loop need not.
  struct Helpers {
    std::mutex mutex;
    std::condition_variable changed;
    int running = 0;
  };
  void help(std::function<void()> work);
  std::shared_ptr<Helpers> helpers_ = std::make_shared<Helpers>();
};

}  // namespace holdfast::stores::zookeeper
