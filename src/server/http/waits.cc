#include "src/server/http/waits.h"

#include <optional>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/base/random.h"

namespace holdfast::server {
namespace {

using machine::Outcome;

ClientName drawn_name() {
  const auto drawn = base::random_128();
  return "http/" + base::to_hex(drawn.high, drawn.low);
}

}  // namespace

struct HttpWaits::Wait {
  Service& service;
  const std::string name;
  const machine::AcquisitionId id;
  const machine::Duration ttl;
  Done<Answer> done;
  std::optional<port::Alarms::Alarm> alarm{};
  Answer queued{};  // The client counts from before this.
};

HttpWaits::HttpWaits(asio::io_context& io) : client_(drawn_name()), alarms_(io) {}

void HttpWaits::enter(Service& service, const machine::Acquire& wish,
                      std::chrono::milliseconds at_most,
                      const std::shared_ptr<HttpDeparture>& departure, Done<Answer> done) {
  if (const auto older = waits_.find(wish.id); older != waits_.end()) {
    end(WaitPtr(older->second), Error(Errc::kClosed, "another call with this id waits now"));
  }
  const auto wait = std::make_shared<Wait>(
      Wait{service, std::string(wish.name), wish.id, wish.ttl, std::move(done)});
  waits_.emplace(wait->id, wait);
  wait->alarm = alarms_.at(base::BootClock::now() + at_most, [this, wait] {
    wait->alarm.reset();
    give_up(wait, /*tell=*/true);
  });
  departure->then = [this, wait] { give_up(wait, /*tell=*/false); };
  service.submit({.client = client_, .action = wish},
                 [this, wait](const Result<Answer>& answer) { on_answer(wait, answer); });
}

bool HttpWaits::is_on(const WaitPtr& wait) const {
  const auto found = waits_.find(wait->id);
  return found != waits_.end() && found->second == wait;
}

void HttpWaits::on_answer(const WaitPtr& wait, const Result<Answer>& answer) {
  if (!is_on(wait)) return;
  if (!answer || answer->reply.outcome != Outcome::kWaiting) return end(wait, answer);
  wait->queued = *answer;
}

void HttpWaits::on_push(const ClientName& client, const port::Push& push) {
  if (client != client_) return;
  const auto found = waits_.find(push.id);
  if (found == waits_.end()) return;
  const WaitPtr wait = found->second;
  Answer answer = wait->queued;
  if (push.kind == port::Push::Kind::kGranted) return shorten(wait, push.state.token);
  answer.reply.outcome = Outcome::kGone;
  end(wait, answer);
}

// A grant inherits the lease of the ticket that waited. Nobody counts on it yet, so it is cut to
// what was asked for: a caller that has died unseen keeps the lock for no longer.
void HttpWaits::shorten(const WaitPtr& wait, machine::Token token) {
  const machine::Keep keep{wait->name, wait->id, wait->queued.reply.seq + 1, wait->ttl, {}};
  wait->service.submit({.client = client_, .action = keep},
                       [this, wait, token](const Result<Answer>& kept) {
                         if (!is_on(wait)) return;
                         if (!kept) return end(wait, kept);
                         const bool holds = kept->reply.outcome == Outcome::kDone;
                         Answer answer = wait->queued;
                         answer.reply.outcome = holds ? Outcome::kHeld : Outcome::kGone;
                         answer.reply.token = token;
                         answer.reply.lease_end = kept->at + wait->ttl;
                         end(wait, answer);
                       });
}

void HttpWaits::take_out(const WaitPtr& wait) {
  waits_.erase(wait->id);
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
  wait->service.submit({.client = client_, .action = machine::Cancel{wait->name, wait->id, {}}},
                       [wait, tell](Result<Answer> answer) {
                         if (!tell) return;
                         if (answer) answer->reply.outcome = Outcome::kBusy;
                         if (answer) answer->reply.next_expiry = wait->queued.reply.next_expiry;
                         wait->done(answer);
                       });
}

void HttpWaits::drop_all() {
  while (!waits_.empty()) take_out(WaitPtr(waits_.begin()->second));
}

}  // namespace holdfast::server
