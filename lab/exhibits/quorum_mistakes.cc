// Mistakes with several servers, one of which lacks some news.
#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <vector>

#include "lab/exhibits/mistakes.h"
#include "lab/exhibits/on_redis.h"

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

  const std::vector<std::string> urls_;
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

}  // namespace holdfast::lab
