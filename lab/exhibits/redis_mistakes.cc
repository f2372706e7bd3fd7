// Mistakes with two commands in place of one, or with a release that does not check the owner.
#include <chrono>
#include <stdexcept>
#include <thread>

#include "lab/exhibits/mistakes.h"
#include "lab/exhibits/on_redis.h"

namespace holdfast::lab {
namespace {

using std::chrono::milliseconds;

class SetnxThenExpire : public OnRedis {
 public:
  using OnRedis::OnRedis;

  // [region: setnx-then-expire]
  bool take(const Ask& ask, Held& held) override {
    if (redis_({"SETNX", ask.name, held.value}).integer == 0) return false;
    passes("between SETNX and EXPIRE");
    redis_({"PEXPIRE", ask.name, in_ms(ask.ttl)});
    return true;
  }
  // [end]
};

class TimestampGetset : public OnRedis {
 public:
  TimestampGetset(const SubjectSetup& setup, milliseconds clock_error)
      : OnRedis(setup), clock_error_(clock_error) {}

  // [region: timestamp-getset]
  bool take(const Ask& ask, Held&) override {
    const std::string mine = in_ms(my_clock() + ask.ttl);
    if (redis_({"SETNX", ask.name, mine}).integer == 1) return true;
    const std::string theirs = redis_({"GET", ask.name}).text;
    if (theirs.empty() || std::stoll(theirs) > my_clock().count()) return false;
    // It was over; unless somebody was faster, it is mine.
    return redis_({"GETSET", ask.name, mine}).text == theirs;
  }
  // [end]
  bool give_back(const Held& held) override { return redis_({"DEL", held.name}).integer == 1; }

 private:
  milliseconds my_clock() const {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<milliseconds>(now) + clock_error_;
  }

  const milliseconds clock_error_;
};

class DelWithoutCheck : public OnRedis {
 public:
  using OnRedis::OnRedis;

  // [region: del-without-check]
  bool take(const Ask& ask, Held&) override {
    return redis_.set_nx(ask.name, "locked", ask.ttl);  // SET name locked NX PX ttl
  }
  bool give_back(const Held& held) override { return redis_({"DEL", held.name}).integer == 1; }
  // [end]
};

class FinallyDelete : public DelWithoutCheck {
 public:
  using DelWithoutCheck::DelWithoutCheck;

  // [region: finally-delete]
  bool take(const Ask& ask, Held& held) override {
    const bool locked = redis_.set_nx(ask.name, "locked", ask.ttl);
    if (!locked) give_back(held);  // The finally block, which runs for the loser, too.
    return locked;
  }
  // [end]
};

class TrueOnFailure : public OnRedis {
 public:
  using OnRedis::OnRedis;

  // [region: true-on-failure]
  bool take(const Ask& ask, Held& held) override {
    try {
      return redis_.set_nx(ask.name, held.value, ask.ttl);
    } catch (const std::runtime_error&) {
      return true;  // Redis is down: the shop must go on.
    }
  }
  // [end]
};

class GetThenDel : public OnRedis {
 public:
  using OnRedis::OnRedis;

  // [region: get-then-del]
  bool give_back(const Held& held) override {
    if (redis_({"GET", held.name}).text != held.value) return false;
    passes("between GET and DEL");
    return redis_({"DEL", held.name}).integer == 1;
  }
  // [end]
};

class ThreadId : public OnRedis {
 public:
  using OnRedis::OnRedis;

  // [region: thread-id]
  bool take(const Ask& ask, Held& held) override {
    held.value = "thread-" + std::to_string(my_thread());
    if (redis_.set_nx(ask.name, held.value, ask.ttl)) return true;
    return redis_({"GET", ask.name}).text == held.value;  // Re-entry: it is mine already.
  }
  // [end]

 private:
  // The runtimes of many languages count so: the first thread of a process is number 1.
  static int my_thread() { return 1; }
};

class NoSecondLook : public OnRedis {
 public:
  using OnRedis::OnRedis;

  // [region: no-second-look]
  bool take(const Ask& ask, Held& held) override {
    if (redis_.set_nx(ask.name, held.value, ask.ttl)) return true;
    passes("has to wait");
    if (!wait_until_gone(ask)) return false;
    passes("free again");
    redis_({"SET", ask.name, held.value, "PX", in_ms(ask.ttl)});  // Nobody has it: it is mine.
    held.deadline_ns = now_ns() + std::chrono::nanoseconds(ask.ttl).count();
    return true;
  }
  // [end]

 private:
  bool wait_until_gone(const Ask& ask) {
    const std::int64_t until = now_ns() + std::chrono::nanoseconds(ask.wait).count();
    while (redis_({"EXISTS", ask.name}).integer == 1) {
      if (now_ns() > until) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  }
};

}  // namespace

SubjectKind setnx_then_expire() {
  return mistake<SetnxThenExpire>("setnx-then-expire", "SETNX, then EXPIRE");
}
SubjectKind timestamp_getset(milliseconds clock_error) {
  return mistake<TimestampGetset>("timestamp-getset", "the end of the lease, by the client's clock",
                                  clock_error);
}
SubjectKind del_without_check() {
  return mistake<DelWithoutCheck>("del-without-check", "DEL, whosever it is");
}
SubjectKind finally_delete() {
  return mistake<FinallyDelete>("finally-delete", "DEL in finally, also by the loser");
}
SubjectKind true_on_failure() {
  return mistake<TrueOnFailure>("true-on-failure", "a failed request counts as the lock");
}
SubjectKind get_then_del() { return mistake<GetThenDel>("get-then-del", "GET, compare, DEL"); }
SubjectKind thread_id() { return mistake<ThreadId>("thread-id", "the owner is a thread id"); }
SubjectKind no_second_look() {
  return mistake<NoSecondLook>("no-second-look", "waits until it is free, then takes it");
}

}  // namespace holdfast::lab
