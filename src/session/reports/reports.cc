#include "src/session/reports/reports.h"

#include <algorithm>
#include <utility>

namespace holdfast::session {
namespace {

AcquireOutcome outcome_of(const Result<std::shared_ptr<Acquisition>>& answer) {
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

Reports::Reports(const ClientOptions& options, const std::string& store_url, Worker& notifier)
    : options_(options),
      store_url_(store_url),
      notifier_(notifier),
      feed_(options.observer ? std::make_shared<ObserverFeed>(options.observer) : nullptr) {}

LogEvent Reports::event(LogSeverity severity, const char* event, std::string text) const {
  LogEvent out;
  out.time = base::wall_now();
  out.severity = severity;
  out.event = event;
  out.text = std::move(text);
  out.store = store_url_;
  return out;
}

LogEvent Reports::event(LogSeverity severity, const char* event, std::string text,
                        const Acquisition& acquisition, Errc error) const {
  LogEvent out = this->event(severity, event, std::move(text));
  out.lock = acquisition.name;
  out.token = {acquisition.token.epoch, acquisition.token.counter};
  if (acquisition.labels) out.trace_id = acquisition.labels->trace_id;
  out.error = error;
  return out;
}

void Reports::log(LogEvent event) {
  if (!options_.log && !options_.log_event) return;
  notifier_.post([this, event = std::move(event)] {
    if (options_.log) options_.log(event.text);
    if (options_.log_event) options_.log_event(event);
  });
}

SeenLock Reports::seen(const Acquisition& acquisition) const {
  return {acquisition.name, acquisition.downgraded ? holdfast::Mode::shared() : acquisition.mode,
          store_url_.substr(0, store_url_.find(':'))};
}

void Reports::tell(ObserverFeed::News news) {
  if (feed_->add(std::move(news))) notifier_.post([feed = feed_] { feed->tell(); });
}

void Reports::asked(Acquisition& acquisition) {
  if (!feed_) return;
  acquisition.span = std::make_unique<ObservedSpan>();
  acquisition.span->asked_at = base::BootClock::now();
}

void Reports::queued(Acquisition& acquisition) {
  if (!feed_) return;
  const std::uint32_t ahead = acquisition.acquire->ahead();
  ObservedSpan& span = *acquisition.span;
  if (!acquisition.acquire->queued() || span.told_ahead == ahead) return;
  if (!span.told_ahead) span.ahead = ahead;
  span.told_ahead = ahead;
  tell(QueueSeen{seen(acquisition), ahead});
}

void Reports::delayed(const Acquisition& acquisition, std::chrono::milliseconds opens_in) {
  if (feed_) tell(QueueSeen{seen(acquisition), acquisition.acquire->ahead(), opens_in});
}

void Reports::granted(Acquisition& acquisition, BootInstant now) {
  if (!feed_) return;
  if (!acquisition.span) acquisition.span = std::make_unique<ObservedSpan>();  // Adopted.
  acquisition.span->held_since = now;
}

void Reports::answered(const Acquisition& acquisition,
                       const Result<std::shared_ptr<Acquisition>>& answer) {
  if (!feed_) return;
  AcquireSeen news{seen(acquisition), outcome_of(answer), {}, {}, {}, {}, {}};
  if (!answer) news.error = answer.error().code();
  news.wait = base::BootClock::now() - acquisition.span->asked_at;
  news.queued = acquisition.queued;
  news.ahead = acquisition.span->ahead;
  if (news.outcome == AcquireOutcome::kGranted) {
    news.token = Token{acquisition.token.epoch, acquisition.token.counter};
  }
  tell(std::move(news));
}

void Reports::lost(Acquisition& acquisition, const Error& why) {
  ended(acquisition, end_of_lost(acquisition, why));
}

void Reports::ended(Acquisition& acquisition, HoldEnd how) {
  if (!acquisition.span || !acquisition.span->held_since) return;
  const auto held = base::BootClock::now() - *std::exchange(acquisition.span->held_since, {});
  tell(HoldSeen{seen(acquisition), how, held,
                Token{acquisition.token.epoch, acquisition.token.counter}});
}

void Reports::renewed(const Acquisition& acquisition, const Renewal& times,
                      const Result<port::AcquisitionState>& reply) {
  if (!feed_) return;
  RenewalSeen news{seen(acquisition),
                   std::max(times.sent_at - times.planned, Nanos::zero()),
                   times.answered_at - times.sent_at,
                   {}};
  if (!reply) {
    news.error = reply.error().code();
  } else if (reply->status != port::AcquisitionStatus::kHeld) {
    news.error = Errc::kLost;
  }
  tell(std::move(news));
}

}  // namespace holdfast::session
