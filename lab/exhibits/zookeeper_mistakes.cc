// Locks of nodes in ZooKeeper, as articles have them: a predecessor that gave up, an answer that
// nobody reads, and a herd before one node.
#include <stdexcept>

#include "lab/exhibits/mistakes.h"
#include "lab/exhibits/scripts.h"

#ifdef HOLDFAST_LAB_HAVE_ZOOKEEPER
#ifndef THREADED
#define THREADED  // The synchronous calls.
#endif
#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <zookeeper/zookeeper.h>

#include "holdfast/client.h"
#include "holdfast/mutex.h"
#include "tests/support/zookeeper_server.h"

#include "lab/exhibits/mistake.h"

namespace holdfast::lab {
namespace {

using namespace std::chrono_literals;

constexpr int kSession = 1000;  // Milliseconds.

class Zookeeper {
 public:
  // "zookeeper://127.0.0.1:1234/..."
  explicit Zookeeper(const std::string& url) {
    const std::string servers = url.substr(url.find("//") + 2);
    zoo_set_debug_level(static_cast<ZooLogLevel>(0));
    handle_.reset(zookeeper_init(servers.substr(0, servers.find_first_of("/?")).c_str(), nullptr,
                                 kSession, nullptr, nullptr, 0));
    const auto until = std::chrono::steady_clock::now() + 60s;
    while (handle_ && zoo_state(handle_.get()) != ZOO_CONNECTED_STATE) {
      if (std::chrono::steady_clock::now() > until) throw std::runtime_error("no ZooKeeper");
      sleep_for(5ms);
    }
  }

  // The path that it got; empty: there is one already.
  std::string create(const std::string& path, int flags) {
    char name[512];
    const int code = zoo_create(handle_.get(), path.c_str(), "", 0, &ZOO_OPEN_ACL_UNSAFE, flags,
                                name, sizeof name);
    if (code == ZNODEEXISTS) return {};
    check(code);
    return name;
  }
  bool remove(const std::string& path) {
    return zoo_delete(handle_.get(), path.c_str(), -1) == ZOK;
  }
  bool exists(const std::string& path) {
    return zoo_exists(handle_.get(), path.c_str(), 0, nullptr) == ZOK;
  }
  // The node before `mine` among its siblings; empty: there is none.
  std::string before(const std::string& mine) {
    const std::string folder = mine.substr(0, mine.rfind('/'));
    String_vector found{};
    check(zoo_get_children(handle_.get(), folder.c_str(), 0, &found));
    std::string last;
    for (int i = 0; i < found.count; ++i) {
      const std::string path = folder + "/" + found.data[i];
      if (path < mine && path > last) last = path;
    }
    deallocate_String_vector(&found);
    return last;
  }
  bool await_end_of(const std::string& path, milliseconds wait) {
    const auto until = std::chrono::steady_clock::now() + wait;
    while (exists(path)) {
      if (std::chrono::steady_clock::now() > until) return false;
      sleep_for(5ms);
    }
    return true;
  }
  // Returns at once if the path is free, otherwise when its watch has fired.
  void await_watch(const std::string& path) {
    auto* const fired = new std::shared_ptr<std::promise<void>>(new std::promise<void>);
    const auto told = *fired;
    Stat stat;
    const int code = zoo_wexists(handle_.get(), path.c_str(), &Zookeeper::on_event, fired, &stat);
    if (code == ZOK) told->get_future().wait();
  }

 private:
  struct Close {
    void operator()(zhandle_t* handle) const { zookeeper_close(handle); }
  };
  static void on_event(zhandle_t*, int type, int, const char*, void* context) {
    if (type == ZOO_SESSION_EVENT) return;
    const std::unique_ptr<std::shared_ptr<std::promise<void>>> fired(
        static_cast<std::shared_ptr<std::promise<void>>*>(context));
    (*fired)->set_value();
  }
  static void check(int code) {
    if (code != ZOK) throw std::runtime_error(zerror(code));
  }

  std::unique_ptr<zhandle_t, Close> handle_;
};

class OnZookeeper : public Mistake {
 public:
  explicit OnZookeeper(const SubjectSetup& setup) : Mistake(setup), zookeeper_(setup.urls.at(0)) {}
  bool give_back(const Held& held) override { return zookeeper_.remove(held.value); }

 protected:
  std::string queue_up(const std::string& name) {
    zookeeper_.create("/" + name, 0);
    return zookeeper_.create("/" + name + "/lock-", ZOO_EPHEMERAL | ZOO_SEQUENCE);
  }

  Zookeeper zookeeper_;
};

class StalePredecessor : public OnZookeeper {
 public:
  using OnZookeeper::OnZookeeper;

  // [region: stale-predecessor]
  bool take(const Ask& ask, Held& held) override {
    held.value = queue_up(ask.name);  // An ephemeral sequential node.
    const std::string before = zookeeper_.before(held.value);
    passes("has queued");
    if (before.empty() || zookeeper_.await_end_of(before, ask.wait)) return true;
    zookeeper_.remove(held.value);
    return false;
  }
  // [end]
};

class IgnoredNo : public OnZookeeper {
 public:
  using OnZookeeper::OnZookeeper;

  // [region: ignored-no]
  bool take(const Ask& ask, Held& held) override {
    lock(ask, held);  // Waits for so long, and says whether it has the lock.
    return true;
  }
  // [end]

 private:
  bool lock(const Ask& ask, Held& held) {
    held.value = queue_up(ask.name);
    const std::string before = zookeeper_.before(held.value);
    return before.empty() || zookeeper_.await_end_of(before, ask.wait);
  }
};

// [region: one-node]
void lock_one_node(Zookeeper& zookeeper, const std::string& path) {
  while (zookeeper.create(path, ZOO_EPHEMERAL).empty()) zookeeper.await_watch(path);
}
// [end]

constexpr int kWaiters = 32;
constexpr std::int64_t kNeeded = 6;  // For an acquisition: few, however many wait.

void take_turns(const std::string& url, const std::string& place, bool beside,
                std::promise<void>& ready, const std::shared_future<void>& go) {
  if (beside) {
    auto client = Client::connect(url);
    if (!client) throw std::runtime_error(client.error().message());
    ready.set_value();
    go.wait();
    auto lease = client->mutex("herd").acquire({.wait = 60s});
    if (!lease) throw std::runtime_error(lease.error().message());
    sleep_for(5ms);
    static_cast<void>(lease->release());
  } else {
    Zookeeper zookeeper(place);
    ready.set_value();
    go.wait();
    lock_one_node(zookeeper, "/herd");
    sleep_for(5ms);
    zookeeper.remove("/herd");
  }
}

}  // namespace

SubjectKind stale_predecessor() {
  return mistake<StalePredecessor>("stale-predecessor", "the node before mine is gone: my turn");
}
SubjectKind ignored_no() {
  return mistake<IgnoredNo>("ignored-no", "the answer of lock() is not read");
}

namespace scripts {

std::optional<std::string> no_zookeeper() { return support::ZookeeperServer::unavailable(); }

void stale_predecessor(Play& play) {
  const support::ZookeeperServer server;
  const std::vector<std::string> url{server.url("?session=2s")};
  Player& alice = play.player("alice", lab::stale_predecessor(), url);
  Player& bob = play.player("bob", lab::stale_predecessor(), url);
  Player& carol = play.player("carol", lab::stale_predecessor(), url);
  alice.acquire(20s);
  for (Player* waiter : {&bob, &carol}) {
    waiter->stop_at("has queued");
    waiter->begin_acquire(20s, 6s);
    waiter->reaches();
    waiter->go_on();
  }
  sleep_for(200ms);
  bob.kill9();
  carol.finish();
  carol.write();
  alice.write();
  carol.release();
  alice.release();
}

void ignored_no(Play& play) {
  const support::ZookeeperServer server;
  const std::vector<std::string> url{server.url("?session=2s")};
  Player& alice = play.player("alice", lab::ignored_no(), url);
  Player& bob = play.player("bob", lab::ignored_no(), url);
  alice.acquire(20s);
  bob.acquire(20s, 300ms);
  sleep_for(60ms);
  bob.write();
  alice.write();
  bob.release();
  alice.release();
}

// The requests that reached the server, and how many of them nobody needed.
Tally zookeeper_herd(Play& play) {
  const support::ZookeeperServer server;
  const std::string url = server.url("?session=10s");
  std::promise<void> start;
  const std::shared_future<void> go = start.get_future().share();
  std::vector<std::promise<void>> ready(kWaiters);
  std::vector<std::future<void>> waiters;
  for (int i = 0; i < kWaiters; ++i) {
    waiters.push_back(std::async(std::launch::async, [&, i] {
      take_turns(url, url, play.beside(), ready[static_cast<std::size_t>(i)], go);
    }));
  }
  for (auto& each : ready) each.get_future().wait();
  const std::int64_t before = server.figure("zk_packets_received");
  start.set_value();
  for (auto& each : waiters) each.get();
  const std::int64_t packets = server.figure("zk_packets_received") - before;
  const std::int64_t needed = kWaiters * kNeeded;
  return {.failed = static_cast<std::size_t>(std::max<std::int64_t>(packets - needed, 0)),
          .requests = static_cast<std::size_t>(packets)};
}

}  // namespace scripts
}  // namespace holdfast::lab

#else

namespace holdfast::lab {

SubjectKind stale_predecessor() { throw std::runtime_error(*scripts::no_zookeeper()); }
SubjectKind ignored_no() { throw std::runtime_error(*scripts::no_zookeeper()); }

namespace scripts {

std::optional<std::string> no_zookeeper() {
  return "this program was built without the ZooKeeper store";
}
void stale_predecessor(Play&) { throw std::runtime_error(*no_zookeeper()); }
void ignored_no(Play&) { throw std::runtime_error(*no_zookeeper()); }
Tally zookeeper_herd(Play&) { throw std::runtime_error(*no_zookeeper()); }

}  // namespace scripts
}  // namespace holdfast::lab

#endif
