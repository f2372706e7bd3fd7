// Mistakes of clients that believe too long, or in the wrong thing, although the store works.
#include <chrono>

#include "lab/exhibits/mistakes.h"
#include "lab/exhibits/on_redis.h"

namespace holdfast::lab {
namespace {

using std::chrono::nanoseconds;

class NoRenewal : public OnRedis {
 public:
  using OnRedis::OnRedis;

  // [region: no-renewal]
  bool take(const Ask& ask, Held& held) override {
    if (!redis_.set_nx(ask.name, held.value, ask.ttl)) return false;  // "Long enough for the job."
    held.deadline_ns = now_ns() + nanoseconds(std::chrono::hours(1)).count();  // Until I am done.
    return true;
  }
  // [end]
};

class LeaseFromReply : public OnRedis {
 public:
  using OnRedis::OnRedis;

  // [region: lease-from-reply]
  bool take(const Ask& ask, Held& held) override {
    if (!redis_.set_nx(ask.name, held.value, ask.ttl)) return false;
    held.deadline_ns = now_ns() + nanoseconds(ask.ttl).count();  // From the reply on.
    return true;
  }
  // [end]
};

class IncrToken : public OnRedis {
 public:
  using OnRedis::OnRedis;

  // [region: incr-token]
  bool take(const Ask& ask, Held& held) override {
    if (!redis_.set_nx(ask.name, held.value, ask.ttl)) return false;
    const auto count = redis_({"INCR", ask.name + ":token"}).integer;
    held.token = Token{0, static_cast<std::uint64_t>(count)};
    return true;
  }
  // [end]
};

class TimeToken : public OnRedis {
 public:
  using OnRedis::OnRedis;

  // [region: time-token]
  bool take(const Ask& ask, Held& held) override {
    if (!redis_.set_nx(ask.name, held.value, ask.ttl)) return false;
    const support::Reply time = redis_({"TIME"});  // Seconds and microseconds.
    held.token = Token{0, std::stoull(time.at(0).text) * 1'000'000 + std::stoull(time.at(1).text)};
    return true;
  }
  // [end]
};

}  // namespace

SubjectKind no_renewal() {
  return mistake<NoRenewal>("no-renewal", "a lease that is longer than the job, it is hoped");
}
SubjectKind lease_from_reply() {
  return mistake<LeaseFromReply>("lease-from-reply", "counts its lease from the reply");
}
SubjectKind time_token() {
  return mistake<TimeToken>("time-token", "the server's time as fencing token");
}
SubjectKind incr_token() { return mistake<IncrToken>("incr-token", "INCR as fencing token"); }

}  // namespace holdfast::lab
