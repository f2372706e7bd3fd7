// Mistakes with several servers, one of which lacks some news, and the steps of those with a
// majority.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <vector>

#include "holdfast/stores.h"

#include "lab/exhibits/mistakes.h"
#include "lab/exhibits/on_redis.h"
#include "lab/exhibits/scripts.h"

namespace holdfast::lab {
namespace {

using std::chrono::milliseconds;

class WaitElsewhere : public OnRedis {
 public:
  explicit WaitElsewhere(const SubjectSetup& setup)
      : OnRedis(setup), other_connection_(setup.urls.at(0)) {}

  // [region: wait-elsewhere]
  bool take(const Ask& ask, Held& held) override {
    if (!redis_.set_nx(ask.name, held.value, ask.ttl)) return false;
    // The replica has it, or it is no lock. (The pool gave another connection.)
    if (other_connection_({"WAIT", "1", "200"}).integer >= 1) return true;
    give_back(held);
    return false;
  }
  // [end]

 private:
  RedisClient other_connection_;
};

class Redlock : public Mistake {
 public:
  explicit Redlock(const SubjectSetup& setup) : Mistake(setup), urls_(setup.urls) {}

  // [region: redlock]
  bool take(const Ask& ask, Held& held) override {
    std::size_t votes = 0;
    for (const std::string& node : urls_) {
      if (votes_for(node, ask, held)) ++votes;
    }
    if (votes > urls_.size() / 2 && now_ns() < held.deadline_ns) return true;
    give_back(held);
    return false;
  }
  // [end]

  bool give_back(const Held& held) override {
    std::size_t gone = 0;
    for (const std::string& node : urls_) {
      try {
        if (RedisClient(node, kLimit).delete_if(held.name, held.value)) ++gone;
      } catch (const std::runtime_error&) {
        continue;  // Unreachable: its lease will end.
      }
    }
    return gone > urls_.size() / 2;
  }

 protected:
  static constexpr milliseconds kLimit{200};

  // Called with each node that granted the lock.
  virtual void granted_by(RedisClient&, const Ask&, Held&) {}

  const std::vector<std::string> urls_;

 private:
  bool votes_for(const std::string& url, const Ask& ask, Held& held) {
    try {
      RedisClient node(url, kLimit);
      if (!node.set_nx(ask.name, held.value, ask.ttl)) return false;
      granted_by(node, ask, held);
      return true;
    } catch (const std::runtime_error&) {
      return false;
    }
  }
};

class RedlockTokens : public Redlock {
 public:
  using Redlock::Redlock;

  bool take(const Ask& ask, Held& held) override {
    held.token = {};
    return Redlock::take(ask, held);
  }

 protected:
  // [region: redlock-tokens]
  void granted_by(RedisClient& node, const Ask& ask, Held& held) override {
    const auto count = node({"INCR", ask.name + ":token"}).integer;
    held.token = std::max(held.token, Token{0, static_cast<std::uint64_t>(count)});
  }
  // [end]
};

class MajoritySemaphore : public Redlock {
 public:
  using Redlock::Redlock;

  // [region: majority-semaphore]
  bool take(const Ask& ask, Held& held) override {
    std::size_t votes = 0;
    for (const std::string& node : urls_) {  // The nearest one first.
      if (votes == 2) passes("two nodes have answered");
      if (enters(node, ask, held)) ++votes;
    }
    if (votes > urls_.size() / 2) return true;
    give_back(held);
    return false;
  }
  // A node counts its own entries, and lets in as many as there are permits.
  static bool enters(const std::string& node, const Ask& ask, const Held& held) {
    RedisClient redis(node, kLimit);
    const std::string permits = std::to_string(ask.mode.capacity());
    return redis({"EVAL", kEnter, "1", ask.name + ":permits", permits, held.value}).integer == 1;
  }
  // [end]
  bool give_back(const Held& held) override {
    for (const std::string& node : urls_) {
      RedisClient(node, kLimit)({"SREM", held.name + ":permits", held.value});
    }
    return true;
  }

 private:
  static constexpr const char* kEnter =
      "if redis.call('SCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end "
      "return redis.call('SADD', KEYS[1], ARGV[2])";
};

}  // namespace

SubjectKind plain_set_nx() {
  return mistake<OnRedis>("set-nx-px", "SET NX PX, compared in a script before DEL");
}
SubjectKind wait_elsewhere() {
  return mistake<WaitElsewhere>("wait-elsewhere", "SET here, WAIT on another connection");
}
SubjectKind redlock() { return mistake<Redlock>("redlock", "a majority of independent servers"); }
SubjectKind redlock_tokens() {
  return mistake<RedlockTokens>("redlock-tokens", "the highest counter of a majority as token");
}
SubjectKind majority_semaphore() {
  return mistake<MajoritySemaphore>("majority-semaphore", "a permit of each node of a majority");
}

namespace scripts {
namespace {

using namespace std::chrono_literals;

// The URLs of independent servers; for Holdfast the one of its Redlock store on these. Each player
// reaches them by other addresses, so they go by names.
std::vector<std::string> quorum(const Play& play, const std::vector<std::string>& urls) {
  if (!play.beside()) return urls;
  std::string list;
  for (const std::string& url : urls) {
    list += (list.empty() ? "" : ",") + url.substr(url.find("//") + 2);
  }
  return {"redlock://" + list + "/?names=1,2,3&longest_ttl=5s&node_timeout=300ms"};
}

std::vector<std::string> all_nodes(House& house) {
  std::vector<std::string> urls;
  for (std::size_t i = 0; i < House::kNodes; ++i) urls.push_back(house.node(i).url());
  return urls;
}

// As `holdfast store init` does it; in a child, because the players are forked from this process.
void found(Play& play) {
  if (!play.beside()) return;
  const std::string url = quorum(play, all_nodes(play.house())).front();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(make_store_schema(url) ? 0 : 1);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) {
    throw std::runtime_error("the servers did not become a Redlock cluster");
  }
}

// Links to the servers that some players lack.
class Links {
 public:
  explicit Links(House& house) : house_(house) {
    for (std::size_t i = 0; i < House::kNodes; ++i) {
      links_.push_back(std::make_unique<support::FaultProxy>(
          support::ProxyOptions{.server_port = house.node(i).port()}));
    }
  }
  std::string beyond(std::size_t node) const {
    return house_.node(node).url({.port = links_[node]->port()});
  }
  void cut() {
    for (const auto& link : links_) {
      link->refuse(true);
      link->reset_all();
    }
  }

 private:
  House& house_;
  std::vector<std::unique_ptr<support::FaultProxy>> links_;
};

// Everybody has been connected to all servers.
void warm_up(std::initializer_list<Player*> players) {
  for (Player* const player : players) {
    player->acquire(kLong, 0ms, 1);
    player->release();
  }
}

}  // namespace

void redlock_empty_node(Play& play) {
  House& house = play.house();
  found(play);
  Links links(house);
  const std::vector<std::string> all = all_nodes(house);
  Player& alice = play.player("alice", lab::redlock(),
                              quorum(play, {all[0], all[1], links.beyond(2)}));
  Player& bob = play.player("bob", lab::redlock(), quorum(play, all));
  warm_up({&alice, &bob});
  links.cut();
  play.begin(FaultKind::kPartition, "alice and redis-3");
  alice.acquire(kLong);
  sleep_for(kWork);
  play.memory_loss(FaultKind::kRestartEmpty, "redis-2",
                   [&] { house.node(1).restart(support::Memory::kLost); });
  bob.acquire(kLong);
  sleep_for(kWork);
  alice.write();
  bob.write();
  play.end(FaultKind::kPartition, "alice and redis-3");
  bob.release();
  alice.release();
}

void redlock_tokens(Play& play) {
  found(play);
  Links links(play.house());
  const std::vector<std::string> all = all_nodes(play.house());
  Player& carol = play.player("carol", lab::redlock_tokens(),
                              quorum(play, {all[0], links.beyond(1), links.beyond(2)}));
  Player& alice = play.player("alice", lab::redlock_tokens(),
                              quorum(play, {all[0], all[1], links.beyond(2)}));
  Player& bob = play.player("bob", lab::redlock_tokens(),
                            quorum(play, {links.beyond(0), all[1], all[2]}));
  warm_up({&carol, &alice, &bob});
  links.cut();
  play.begin(FaultKind::kPartition, "each and one or two servers");
  for (int i = 0; i < 2; ++i) carol.acquire(300ms);  // In vain, but redis-1 has counted.
  alice.acquire(300ms);
  alice.pause();
  sleep_for(400ms);
  bob.acquire(kLong);
  bob.write();
  sleep_for(kWork);
  alice.resume();
  alice.write();
  play.end(FaultKind::kPartition, "each and one or two servers");
  bob.release();
}

// Each client asks the servers in its own order, and no fault happens. Holdfast's permits are those
// of one server, because its Redlock store refuses them.
void majority_semaphore(Play& play) {
  play.asks_for(Mode::permits(1, 2));
  const std::vector<std::string> all = all_nodes(play.house());
  const auto beginning_at = [&](std::size_t first) {
    return play.beside() ? std::vector<std::string>{all[0]}
                         : std::vector<std::string>{all[first], all[(first + 1) % 3],
                                                    all[(first + 2) % 3]};
  };
  Player& alice = play.player("alice", lab::majority_semaphore(), beginning_at(0));
  Player& bob = play.player("bob", lab::majority_semaphore(), beginning_at(1));
  Player& carol = play.player("carol", lab::majority_semaphore(), beginning_at(2));
  for (Player* const player : {&alice, &bob}) {
    player->stop_at("two nodes have answered");
    player->begin_acquire(kLong);
    player->reaches();
  }
  carol.acquire(kLong);
  for (Player* const player : {&alice, &bob}) {
    player->go_on();
    player->finish();
  }
  sleep_for(kWork);
  for (Player* const player : {&alice, &bob, &carol}) player->release();
}

}  // namespace scripts

}  // namespace holdfast::lab
