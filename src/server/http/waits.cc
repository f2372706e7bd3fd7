#include "src/server/http/waits.h"

#include <optional>
#include <vector>

#include "src/base/clock.h"
#include "src/base/random.h"

namespace holdfast::server {
namespace {

using machine::Outcome;

// For an answer that hangs, beside the time of the wait: the journal's disk may be full.
constexpr std::chrono::seconds kForTheAnswer{5};

ClientName drawn_name() {
  const auto drawn = base::random_128();
  return "http/" + base::to_hex(drawn.high, drawn.low);
}

}  // namespace

struct HttpWaits::Wait {
  Wait(const Call& call, const machine::Acquire& wish, Done<Answer> its_done)
      : service(call.service),
        address(call.address),
        user(call.user),
        at_most(call.at_most),
        name(wish.name),
        acquire(wish),
        done(std::move(its_done)) {
    acquire.name = name;
  }

  Key key() const { return {acquire.id, name}; }

  Service& service;
  const std::string address;
  const std::string user;
  const std::chrono::milliseconds at_most;
  const std::string name;
  machine::Acquire acquire;
  Done<Answer> done;
  std::optional<port::Alarms::Alarm> alarm{};
  std::optional<Answer> queued{};  // The client counts from before this.
  bool granted = false;            // A push came before the first answer.
};

HttpWaits::HttpWaits(asio::io_context& io, std::size_t most, std::size_t most_of_address)
    : client_(drawn_name()), most_(most), most_of_address_(most_of_address), alarms_(io) {}

bool HttpWaits::has_room(const std::string& address) const {
  const auto found = of_address_.find(address);
  return waits_.size() < most_ && (found == of_address_.end() || found->second < most_of_address_);
}

void HttpWaits::enter(const Call& call, const machine::Acquire& wish, Done<Answer> done) {
  replace(std::string(wish.name), wish.id);
  const auto wait = std::make_shared<Wait>(call, wish, std::move(done));
  waits_.emplace(wait->key(), wait);
  ++of_address_[wait->address];
  arm(wait, wait->at_most + kForTheAnswer);
  // Not the wait itself: it keeps what is to be called, which keeps the departure.
  call.departure->then = [this, weak = std::weak_ptr(wait)] {
    if (const WaitPtr departed = weak.lock()) give_up(departed, /*tell=*/false);
  };
  wait->service.submit(request(wait, wait->acquire),
                       [this, wait](const Result<Answer>& answer) { on_answer(wait, answer); });
}

Request HttpWaits::request(const WaitPtr& wait, machine::Action action) const {
  return {.client = client_, .action = std::move(action), .user = wait->user};
}

bool HttpWaits::has_in_other_mode(const std::string& lock, machine::AcquisitionId id,
                                  const machine::Mode& mode) const {
  const auto found = waits_.find({id, lock});
  return found != waits_.end() && is_another_mode(found->second->acquire.mode, mode);
}

void HttpWaits::replace(const std::string& lock, machine::AcquisitionId id) {
  end_older(lock, id, Error(Errc::kClosed, "a later call with this id took its place"));
}

void HttpWaits::release(const std::string& lock, machine::AcquisitionId id) {
  end_older(lock, id, Error(Errc::kCancelled, "a release with this id ended the wait"));
}

void HttpWaits::end_older(const std::string& lock, machine::AcquisitionId id, const Error& why) {
  const auto older = waits_.find({id, lock});
  if (older != waits_.end()) end(WaitPtr(older->second), why);
}

bool HttpWaits::is_on(const WaitPtr& wait) const {
  const auto found = waits_.find(wait->key());
  return found != waits_.end() && found->second == wait;
}

void HttpWaits::arm(const WaitPtr& wait, std::chrono::nanoseconds after) {
  if (const auto before = std::exchange(wait->alarm, std::nullopt)) alarms_.cancel(*before);
  wait->alarm = alarms_.at(base::BootClock::now() + after, [this, weak = std::weak_ptr(wait)] {
    if (const WaitPtr late = weak.lock()) on_alarm(late);
  });
}

void HttpWaits::on_alarm(const WaitPtr& wait) {
  wait->alarm.reset();
  if (wait->queued) return give_up(wait, /*tell=*/true);
  end(wait, Error(Errc::kOutcomeUnknown, "the journal has not answered in time"));
}

void HttpWaits::on_answer(const WaitPtr& wait, const Result<Answer>& answer) {
  if (!is_on(wait)) return;
  if (!answer || answer->reply.outcome != Outcome::kWaiting) return end(wait, answer);
  const bool first = !wait->queued;
  wait->queued = *answer;
  if (!first) return;
  arm(wait, wait->at_most);
  if (answer->reply.lease_end - answer->at < wait->acquire.waiter_ttl) lengthen(wait);
  if (wait->granted) on_granted(wait);
}

// The ticket is that of an earlier call, and would end too early.
void HttpWaits::lengthen(const WaitPtr& wait) {
  const machine::Renew renew{wait->name, wait->acquire.id, wait->queued->reply.seq + 1,
                             wait->acquire.ttl, wait->acquire.waiter_ttl};
  wait->service.submit(request(wait, renew), [this, wait](const Result<Answer>& answer) {
    if (answer && answer->reply.outcome == Outcome::kWaiting) {
      on_answer(wait, answer);
    }
  });
}

// A push names an acquisition, and not its lock.
void HttpWaits::on_push(const ClientName& client, const port::Push& push) {
  if (client != client_) return;
  std::vector<WaitPtr> concerned;
  for (auto at = waits_.lower_bound({push.id, {}}); at != waits_.end(); ++at) {
    if (at->first.first != push.id) break;
    concerned.push_back(at->second);
  }
  for (const WaitPtr& each : concerned) {
    each->granted = true;
    if (each->queued) on_granted(each);
  }
}

// Asked once more, the service says whether this ticket holds, waits on, or is gone.
void HttpWaits::on_granted(const WaitPtr& wait) {
  wait->service.submit(request(wait, wait->acquire), [this, wait](const Result<Answer>& answer) {
    if (!is_on(wait)) return;
    if (!answer || answer->reply.outcome != Outcome::kHeld) {
      return on_answer(wait, answer);
    }
    shorten(wait, *answer);
  });
}

// A grant inherits the lease of the ticket that waited. Nobody counts on it yet, so it is cut to
// what was asked for: a caller that has died unseen keeps the lock for no longer.
void HttpWaits::shorten(const WaitPtr& wait, const Answer& held) {
  const machine::Keep keep{wait->name, wait->acquire.id, held.reply.seq + 1, wait->acquire.ttl, {}};
  wait->service.submit(request(wait, keep), [this, wait, held](const Result<Answer>& kept) {
    if (!is_on(wait)) return;
    if (!kept) return end(wait, kept);
    const bool holds = kept->reply.outcome == Outcome::kDone;
    Answer answer = *wait->queued;
    answer.reply.outcome = holds ? Outcome::kHeld : Outcome::kGone;
    answer.reply.token = held.reply.token;
    answer.reply.lease_end = kept->at + wait->acquire.ttl;
    end(wait, answer);
  });
}

void HttpWaits::take_out(const WaitPtr& wait) {
  waits_.erase(wait->key());
  const auto place = of_address_.find(wait->address);
  if (--place->second == 0) of_address_.erase(place);
  if (const auto alarm = std::exchange(wait->alarm, std::nullopt)) alarms_.cancel(*alarm);
}

void HttpWaits::end(const WaitPtr& wait, const Result<Answer>& answer) {
  take_out(wait);
  std::exchange(wait->done, {})(answer);
}

// Whoever was granted at this moment, unseen, lets go by the same request.
void HttpWaits::give_up(const WaitPtr& wait, bool tell) {
  if (!is_on(wait)) return;
  take_out(wait);
  const machine::Cancel cancel{wait->name, wait->acquire.id, {}};
  auto done = std::exchange(wait->done, {});
  if (!tell) return wait->service.submit(request(wait, cancel), [](const auto&) {});
  // The caller is told if only a lock-delay keeps the lock closed.
  const auto last = std::make_shared<Answer>();
  wait->service.submit(request(wait, wait->acquire), [last](const Result<Answer>& answer) {
    if (answer) *last = *answer;
  });
  wait->service.submit(request(wait, cancel),
                       [last, done = std::move(done)](const Result<Answer>& answer) {
                         if (!answer) return done(answer);
                         last->reply.outcome = Outcome::kCancelled;
                         done(*last);
                       });
}

void HttpWaits::drop(const Service& service) {
  std::vector<WaitPtr> its;
  for (const auto& [key, wait] : waits_) {
    if (&wait->service == &service) its.push_back(wait);
  }
  for (const WaitPtr& each : its) take_out(each);
}

void HttpWaits::drop_all() {
  while (!waits_.empty()) take_out(WaitPtr(waits_.begin()->second));
}

}  // namespace holdfast::server
