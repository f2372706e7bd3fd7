#include "lab/exhibits/mistake.h"

#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "lab/exhibits/mistakes.h"

namespace holdfast::lab {
namespace {

constexpr std::chrono::milliseconds kPoll{5};

class MistakeHold : public Hold {
 public:
  MistakeHold(Mistake& mistake, Held held, Id id)
      : mistake_(mistake), held_(std::move(held)), id_(id) {}

  Id id() const override { return id_; }
  Token token() const override { return held_.token; }
  std::int64_t deadline_ns() const override { return held_.deadline_ns; }

  Outcome held() override { return now_ns() < held_.deadline_ns ? Outcome::kHeld : Outcome::kLost; }
  Renewed renew() override { return {Outcome::kUnavailable, 0}; }
  Outcome release() override {
    try {
      return mistake_.give_back(held_) ? Outcome::kReleased : Outcome::kLost;
    } catch (const std::runtime_error&) {
      return Outcome::kUnknown;
    }
  }

 private:
  Mistake& mistake_;
  const Held held_;
  const Id id_;
};

}  // namespace

Acquired Mistake::acquire(const Ask& ask, Listener&) {
  const std::int64_t until = now_ns() + std::chrono::nanoseconds(ask.wait).count();
  const Id id = fresh_id();
  Held held{ask.name, std::to_string(id.high) + "-" + std::to_string(id.low)};
  for (;;) {
    held.deadline_ns = now_ns() + std::chrono::nanoseconds(ask.ttl).count();
    try {
      if (take(ask, held)) {
        return {Outcome::kGranted, std::make_unique<MistakeHold>(*this, held, id)};
      }
    } catch (const std::runtime_error&) {
      return {Outcome::kUnknown, nullptr};
    }
    if (now_ns() >= until) break;
    std::this_thread::sleep_for(kPoll);
  }
  return {ask.wait.count() == 0 ? Outcome::kBusy : Outcome::kTimedOut, nullptr};
}

std::vector<SubjectKind> mistakes() {
  return {setnx_then_expire(), del_without_check(), get_then_del(),       thread_id(),
          no_second_look(),    no_renewal(),        lease_from_reply(),   incr_token(),
          time_token(),        plain_set_nx(),      wait_elsewhere(),     row_without_expiry(),
          delete_without_owner()};
}

std::string in_ms(std::chrono::milliseconds span) { return std::to_string(span.count()); }

}  // namespace holdfast::lab
