// The core's reports to its log and its observer. see_... is not called without an observer.
#include <algorithm>
#include <memory>
#include <utility>

#include "src/session/core.h"

namespace holdfast::session {
namespace {

AcquireOutcome outcome_of(const Result<Core::AcquisitionPtr>& answer) {
  if (answer) return *answer ? AcquireOutcome::kGranted : AcquireOutcome::kBusy;
  switch (answer.error().code()) {
    case Errc::kTimedOut: return AcquireOutcome::kTimedOut;
    case Errc::kCancelled: return AcquireOutcome::kCancelled;
    default: return AcquireOutcome::kFailed;
  }
}

HoldEnd end_of_lost(const Acquisition& acquisition, const Error& why) {
  if (why.code() == Errc::kBroken) return HoldEnd::kBroken;
  if (!acquisition.renewal) return HoldEnd::kClosed;
  switch (acquisition.renewal->loss_cause()) {
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
                         const Acquisition& acquisition, Errc error) const {
  LogEvent out = log_event(severity, event, std::move(text));
  out.lock = acquisition.name;
  out.token = {acquisition.token.epoch, acquisition.token.counter};
  out.trace_id = acquisition.options.trace_id;
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

SeenLock Core::seen(const Acquisition& acquisition) const {
  return {acquisition.name, acquisition.downgraded ? holdfast::Mode::shared() : acquisition.mode,
          options_.store_url.substr(0, options_.store_url.find(':'))};
}

void Core::tell_observer(ObserverFeed::News news) {
  if (feed_->add(std::move(news))) notifier_.post([feed = feed_] { feed->tell(); });
}

void Core::see_asked(Acquisition& acquisition) {
  acquisition.span = std::make_unique<ObservedSpan>();
  acquisition.span->asked_at = base::BootClock::now();
}

void Core::see_queue(Acquisition& acquisition) {
  const std::uint32_t ahead = acquisition.acquire->ahead();
  ObservedSpan& span = *acquisition.span;
  if (!acquisition.acquire->queued() || span.told_ahead == ahead) return;
  if (!span.told_ahead) span.ahead = ahead;
  span.told_ahead = ahead;
  tell_observer(QueueSeen{seen(acquisition), ahead});
}

void Core::see_granted(Acquisition& acquisition, BootInstant now) {
  if (!acquisition.span) acquisition.span = std::make_unique<ObservedSpan>();  // Adopted.
  acquisition.span->held_since = now;
}

void Core::see_answer(const Acquisition& acquisition, const Result<AcquisitionPtr>& answer) {
  AcquireSeen news{seen(acquisition), outcome_of(answer), {}, {}, {}, {}, {}};
  if (!answer) news.error = answer.error().code();
  news.wait = base::BootClock::now() - acquisition.span->asked_at;
  news.queued = acquisition.queued;
  news.ahead = acquisition.span->ahead;
  if (news.outcome == AcquireOutcome::kGranted) {
    news.token = Token{acquisition.token.epoch, acquisition.token.counter};
  }
  tell_observer(std::move(news));
}

void Core::see_lost(Acquisition& acquisition, const Error& why) {
  see_ended(acquisition, end_of_lost(acquisition, why));
}

void Core::see_ended(Acquisition& acquisition, HoldEnd how) {
  if (!acquisition.span || !acquisition.span->held_since) return;
  const auto held = base::BootClock::now() - *std::exchange(acquisition.span->held_since, {});
  tell_observer(HoldSeen{seen(acquisition), how, held,
                         Token{acquisition.token.epoch, acquisition.token.counter}});
}

void Core::see_renewed(const Outgoing& sent, BootInstant now,
                       const Result<port::AcquisitionState>& reply) {
  RenewalSeen news{seen(*sent.acquisition),
                   std::max(sent.sent_at - sent.planned, Nanos::zero()),
                   now - sent.sent_at,
                   {}};
  if (!reply) {
    news.error = reply.error().code();
  } else if (reply->status != port::AcquisitionStatus::kHeld) {
    news.error = Errc::kLost;
  }
  tell_observer(std::move(news));
}

}  // namespace holdfast::session
