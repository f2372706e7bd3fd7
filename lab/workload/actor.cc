#include "lab/workload/actor.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace holdfast::lab {

void Actor::record(const Event& event) {
  if (!stage_.recorder.record(event)) throw std::runtime_error("the recorder has no more room");
}

std::unique_ptr<ActorHold> Actor::acquire(const Want& want) {
  Event event;
  event.owner = owner_;
  event.lock = want.lock;
  event.mode = want.mode.kind();
  event.count = want.mode.count();
  event.capacity = want.mode.capacity();
  event.ttl_ns = std::chrono::nanoseconds(want.ttl).count();
  auto hold = std::make_unique<ActorHold>(*this, event);
  event.kind = Kind::kAcquire;
  event.phase = Phase::kInvoke;
  event.wait_ns = std::chrono::nanoseconds(want.wait).count();
  event.call = stage_.recorder.next_call();
  const Ask ask{stage_.locks.at(want.lock), want.mode, want.ttl, want.wait, want.cancel};
  record(event);
  Acquired acquired = stage_.subject.acquire(ask, *hold);
  event.phase = Phase::kReturn;
  event.outcome = last_ = acquired.outcome;
  if (acquired.outcome == Outcome::kGranted) {
    hold->base_.id = event.id = acquired.hold->id();
    hold->base_.token = event.token = acquired.hold->token();
    event.deadline_ns = acquired.hold->deadline_ns();
  }
  record(event);
  if (acquired.outcome != Outcome::kGranted) return nullptr;
  hold->hold_ = std::move(acquired.hold);
  return hold;
}

ActorHold::ActorHold(Actor& actor, const Event& base) : actor_(actor), base_(base) {}

ActorHold::~ActorHold() { hold_.reset(); }

Event ActorHold::begin(Kind kind) {
  Event event = base_;
  event.kind = kind;
  event.phase = Phase::kInvoke;
  event.call = actor_.stage_.recorder.next_call();
  actor_.record(event);
  return event;
}

void ActorHold::end(Event event, Outcome outcome) {
  event.phase = Phase::kReturn;
  event.outcome = outcome;
  actor_.record(event);
}

bool ActorHold::held() {
  const Event event = begin(Kind::kHeld);
  const Outcome outcome = hold_->held();
  end(event, outcome);
  return outcome == Outcome::kHeld;
}

Outcome ActorHold::renew(std::chrono::milliseconds ttl) {
  base_.ttl_ns = std::chrono::nanoseconds(ttl).count();
  Event event = begin(Kind::kRenew);
  const Renewed answer = hold_->renew();
  if (answer.outcome == Outcome::kRenewed) event.deadline_ns = answer.deadline_ns;
  end(event, answer.outcome);
  return answer.outcome;
}

Outcome ActorHold::release() {
  const Event event = begin(Kind::kRelease);
  const Outcome outcome = hold_->release();
  end(event, outcome);
  return outcome;
}

bool ActorHold::write() {
  Event event = begin(Kind::kWrite);
  const WriteAnswer answer =
      actor_.stage_.resource.write(base_.lock, base_.mode, base_.token, base_.id);
  event.seen = answer.seen;
  event.sequence = answer.sequence;
  end(event, answer.accepted ? Outcome::kAccepted : Outcome::kRefused);
  return answer.accepted;
}

// Called from any thread, even before acquire() has returned, so it uses only its arguments.
void ActorHold::renewed(const Id& id, std::int64_t sent_ns, std::int64_t deadline_ns) {
  Recorder& recorder = actor_.stage_.recorder;
  Event event;
  event.owner = base_.owner;
  event.lock = base_.lock;
  event.kind = Kind::kRenew;
  event.phase = Phase::kInvoke;
  event.mode = base_.mode;
  event.count = base_.count;
  event.capacity = base_.capacity;
  event.ttl_ns = base_.ttl_ns;
  event.id = id;
  event.call = recorder.next_call();
  event.process = actor_.stage_.process;
  event.at_ns = std::min(sent_ns, now_ns());
  recorder.record_as_stamped(event);
  event.phase = Phase::kReturn;
  event.outcome = Outcome::kRenewed;
  event.deadline_ns = deadline_ns;
  recorder.record(event);
}

void ActorHold::lost(const Id& id) {
  Event event;
  event.owner = base_.owner;
  event.lock = base_.lock;
  event.kind = Kind::kLost;
  event.mode = base_.mode;
  event.id = id;
  actor_.stage_.recorder.record(event);
}

}  // namespace holdfast::lab
