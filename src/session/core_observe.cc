// What the core tells its log, and its observer: see_... is not called without one.
#include <algorithm>
#include <memory>
#include <utility>

#include "src/session/core.h"

namespace holdfast::session {
namespace {

AcquireOutcome outcome_of(const Result<Core::ContenderPtr>& answer) {
  if (answer) return *answer ? AcquireOutcome::kGranted : AcquireOutcome::kBusy;
  switch (answer.error().code()) {
    case Errc::kTimedOut: return AcquireOutcome::kTimedOut;
    case Errc::kCancelled: return AcquireOutcome::kCancelled;
    default: return AcquireOutcome::kFailed;
  }
}

HoldEnd end_of_lost(const Contender& contender, const Error& why) {
  if (why.code() == Errc::kBroken) return HoldEnd::kBroken;
  if (!contender.renewal) return HoldEnd::kClosed;
  switch (contender.renewal->loss_cause()) {
    case RenewalFsm::LossCause::kNone: return HoldEnd::kClosed;
    case RenewalFsm::LossCause::kStore: return HoldEnd::kGone;
    case RenewalFsm::LossCause::kExpired: return HoldEnd::kExpired;
    case RenewalFsm::LossCause::kMaxHold: return HoldEnd::kMaxHold;
    case RenewalFsm::LossCause::kTakenOver: return HoldEnd::kTakenOver;
  }
  return HoldEnd::kExpired;
}

}  // namespace

LogEvent Core::log_event(LogSeverity severity, const char* event, std::string text) const {
  LogEvent out;
  out.time = base::wall_now();
  out.severity = severity;
  out.event = event;
  out.text = std::move(text);
  out.store = options_.store_url;
  return out;
}

LogEvent Core::log_event(LogSeverity severity, const char* event, std::string text,
                         const Contender& contender, Errc error) const {
  LogEvent out = log_event(severity, event, std::move(text));
  out.lock = contender.name;
  out.token = {contender.token.epoch, contender.token.counter};
  out.trace_id = contender.options.trace_id;
  out.error = error;
  return out;
}

void Core::log(LogEvent event) {
  if (!options_.client.log && !options_.client.log_event) return;
  notifier_.post([this, event = std::move(event)] {
    if (options_.client.log) options_.client.log(event.text);
    if (options_.client.log_event) options_.client.log_event(event);
  });
}

void Core::on_alarm(const std::string& line) {
  log(log_event(LogSeverity::kWarning, "store", line));
}

SeenLock Core::seen(const Contender& contender) const {
  return {contender.name, contender.downgraded ? holdfast::Mode::shared() : contender.mode,
          options_.store_url.substr(0, options_.store_url.find(':'))};
}

void Core::tell_observer(ObserverFeed::News news) {
  if (feed_->add(std::move(news))) notifier_.post([feed = feed_] { feed->tell(); });
}

void Core::see_asked(Contender& contender) {
  contender.span = std::make_unique<ObservedSpan>();
  contender.span->asked_at = base::BootClock::now();
}

void Core::see_queue(Contender& contender) {
  const std::uint32_t ahead = contender.acquire->ahead();
  ObservedSpan& span = *contender.span;
  if (!contender.acquire->queued() || span.told_ahead == ahead) return;
  if (!span.told_ahead) span.ahead = ahead;
  span.told_ahead = ahead;
  tell_observer(QueueSeen{seen(contender), ahead});
}

void Core::see_granted(Contender& contender, BootInstant now) {
  if (!contender.span) contender.span = std::make_unique<ObservedSpan>();  // Adopted.
  contender.span->held_since = now;
}

void Core::see_answer(const Contender& contender, const Result<ContenderPtr>& answer) {
  AcquireSeen news{seen(contender), outcome_of(answer), {}, {}, {}, {}, {}};
  if (!answer) news.error = answer.error().code();
  news.wait = base::BootClock::now() - contender.span->asked_at;
  news.queued = contender.queued;
  news.ahead = contender.span->ahead;
  if (news.outcome == AcquireOutcome::kGranted) {
    news.token = Token{contender.token.epoch, contender.token.counter};
  }
  tell_observer(std::move(news));
}

void Core::see_lost(Contender& contender, const Error& why) {
  see_ended(contender, end_of_lost(contender, why));
}

void Core::see_ended(Contender& contender, HoldEnd how) {
  if (!contender.span || !contender.span->held_since) return;
  const auto held = base::BootClock::now() - *std::exchange(contender.span->held_since, {});
  tell_observer(
      HoldSeen{seen(contender), how, held, Token{contender.token.epoch, contender.token.counter}});
}

void Core::see_renewed(const Outgoing& sent, BootInstant now,
                       const Result<port::TicketState>& reply) {
  RenewalSeen news{seen(*sent.contender),
                   std::max(sent.sent_at - sent.planned, Nanos::zero()),
                   now - sent.sent_at,
                   {}};
  if (!reply) {
    news.error = reply.error().code();
  } else if (reply->status != port::TicketStatus::kHeld) {
    news.error = Errc::kLost;
  }
  tell_observer(std::move(news));
}

}  // namespace holdfast::session
