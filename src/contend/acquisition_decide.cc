// Decides whether an acquisition holds or waits, and when a caller that does not wait may be told
// that the lock is busy.
//
// Until its entry is removed, a refused contender looks like a holder. So nobody is refused because
// of an entry that may belong to a refused try. A try therefore marks its details
// (Details::attempt). When it holds, it removes the mark unless it is released sooner; when it is
// refused, its entry is removed. Each caller looks only at the entries before its own, and the
// first entry holds, so no circle can form.
#include <algorithm>
#include <tuple>

#include "holdfast/detail/transient.h"
#include "src/contend/acquisition.h"
#include "src/contend/timing.h"
#include "src/port/outcome.h"

namespace holdfast::contend {
namespace {

using machine::Outcome;
using port::AcquisitionState;
using port::AcquisitionStatus;

// In case the watch was missed.
constexpr auto kPoll = std::chrono::milliseconds(500);

bool any_upgrade(const Listing& listing) {
  return std::any_of(listing.queue.begin(), listing.queue.end(),
                     [](const QueueEntry& each) { return each.key.shape == Shape::kUpgrade; });
}

// The part of the lock that an error shows.
machine::LockImage image_of(const Listing& listing, const Record& record) {
  machine::LockImage image;
  if (listing.queue.empty()) return image;
  const bool permits = mode_of(listing.queue.front().key).kind == machine::ModeKind::kPermits;
  image.kind = permits ? machine::ModeKind::kPermits : machine::ModeKind::kExclusive;
  image.capacity = capacity_of(listing.queue, record, listing.record_rev);
  return image;
}

ReadEntry read_of(const QueueEntry& entry, Watch watch) {
  return {std::make_unique<QueueEntry>(entry), watch};
}

void fill(QueueEntry& entry, const Read& read) {
  entry.details = read.details;
  entry.created = read.created;
  entry.modified = read.modified;
}

}  // namespace

// The answer to the question that the decision had.
void AcquisitionFsm::on_decision_reply(Replied& event) {
  const Error* failed =
      std::visit([](const auto& reply) { return reply ? nullptr : &reply.error(); }, event.reply);
  const auto* read = std::get_if<Result<std::optional<Read>>>(&event.reply);
  const auto* applied = std::get_if<Result<std::optional<std::uint64_t>>>(&event.reply);
  if (state_ == State::kPolling) return on_polled(*read);
  if (failed != nullptr) return look_failed(*failed);
  switch (state_) {
    case State::kListing:
    case State::kListingInFull:
      return decide(*std::get<Result<Listing>>(std::move(event.reply)), view_->watching,
                    event.record_known);
    case State::kReadingRecord:
      std::tie(view_->record, view_->listing.record_rev) =
          *std::get<Result<std::pair<Record, std::uint64_t>>>(std::move(event.reply));
      return decide_by();
    case State::kReadingHead:
      if (!**read) return list(/*watching=*/false);
      fill(view_->listing.queue[view_->at], ***read);
      view_->head = view_->listing.queue[view_->at];
      return decide_by();
    case State::kReadingFate: return on_fate(*read);
    case State::kReadingBlocker: return on_blocker(*read);
    case State::kDropping: return list(/*watching=*/false);
    case State::kSettling: return on_settled(*applied);
    case State::kPassingGate: return on_gate(std::get<Result<Gate>>(event.reply));
    case State::kLearningNumber: return on_number(*read);
    case State::kMarking: return on_marked(*read);
    case State::kListingOthers: return on_others_listed(std::get<Result<Listing>>(event.reply));
    case State::kKeeping: return on_kept_at_grant(*read);
    case State::kOutdatingOthers: return **applied ? grant() : list(/*watching=*/false);
    case State::kListingShrink: return on_shrink_listed(std::get<Result<Listing>>(event.reply));
    case State::kShrinking: return on_shrunk(*applied);
    default: return;  // The other states have no request that this could answer.
  }
}

// Looks at the queue again, because its blocker may be gone.
void AcquisitionFsm::look() {
  if (state_ < State::kListing || state_ > State::kSessionLost) return;
  const bool parked = state_ == State::kStandingBy || state_ == State::kWaiting ||
                      state_ == State::kLookPause || state_ == State::kSessionLost;
  if (parked) return list(/*watching=*/false);
  look_again_ = true;
}

void AcquisitionFsm::list(bool watching) {
  view_->watching = watching;
  view_->blocker.reset();
  view_->blocker_ends = BootInstant::max();
  look_again_ = false;
  asks_seen_ = asks_;
  ask(State::kListing, soon(), ListQueue{.watch = watching ? Watch::kWake : Watch::kNone});
}

void AcquisitionFsm::decide(Listing listing, bool watching, bool record_known) {
  view_->watching = watching;
  view_->listing = std::move(listing);
  view_->record = {};
  if (view_->listing.refusal) return look_failed(*std::exchange(view_->listing.refusal, {}));
  for (QueueEntry& each : view_->listing.queue) {
    if (each.key == entry_.key) each.created = entry_.created;
    const std::optional<QueueEntry>& head = view_->head;
    // A name may be reused; its order shows whether it is the same entry.
    const bool same = head && each.key == head->key && each.order == head->order;
    if (same && !each.details) each = *head;
  }
  if (view_->listing.record) {
    view_->record = *view_->listing.record;
    return decide_by();
  }
  // A later version may use the record to change the meaning of the queue. So nobody is admitted
  // without reading the record, even if its content decides nothing here.
  const bool needed =
      entry_.key.shape == Shape::kPermits || system() || any_upgrade(view_->listing);
  if ((record_known && !needed) || view_->listing.record_rev == 0) return decide_by();
  ask(State::kReadingRecord, soon(), ReadRecord{});
}

void AcquisitionFsm::decide_by() {
  const Listing& listing = view_->listing;
  const Decision decision =
      contend::decide(listing.queue, entry_.key.id, view_->record, listing.record_rev);
  view_->decision = decision;
  switch (decision.verdict) {
    case Verdict::kHolds: return admit(listing.record_rev);
    case Verdict::kHoldsIfSettled: return settle();
    case Verdict::kLook: return read_head(decision.blocker);
    case Verdict::kGone:
      if (entry_.key.shape != Shape::kUpgrade) return taken_away();
      return leave(
          port::to_acquire_result({.outcome = Outcome::kInvalid}, view_->request, nullptr, {}));
    case Verdict::kMismatch: return refuse(Outcome::kMismatch);
    case Verdict::kTooLarge: return refuse(Outcome::kTooLarge);
    case Verdict::kWouldDeadlock: return refuse(Outcome::kWouldDeadlock);
    case Verdict::kWaits:
    case Verdict::kWaitsForAny: break;
  }
  if (!view_->request.may_wait) return refuse_to_wait();
  if (!queued_) {
    // A newcomer learns how many wait before it, and may be refused for their number. This includes
    // an upgrade, although nobody is ahead of it.
    if (const auto head = unread_head(listing.queue, entry_.key.id)) return read_head(*head);
    const std::uint32_t limit = view_->request.max_waiters;
    if (limit != 0 &&
        waiting_before(listing.queue, entry_.key.id, view_->record, listing.record_rev) >= limit) {
      return leave(port::to_ticket_state({.outcome = Outcome::kQueueFull}, lock_, {}));
    }
  }
  queued_ = true;
  if (view_->watching) return stand_waiting();  // The folder's watch wakes it at any change.
  if (decision.verdict == Verdict::kWaitsForAny) return list(/*watching=*/true);
  wait_for(listing.queue[decision.blocker]);
}

void AcquisitionFsm::refuse(Outcome outcome) {
  const machine::LockImage image = image_of(view_->listing, view_->record);
  leave(port::to_acquire_result({.outcome = outcome}, view_->request, &image, {}));
}

void AcquisitionFsm::read_head(std::size_t head) {
  view_->at = head;
  ask(State::kReadingHead, soon(), read_of(view_->listing.queue[head], Watch::kKeep));
}

// --- Waiting.

// Reports unreadable entries that keep this client out.
void AcquisitionFsm::note_kept_out(const Listing& listing) {
  const bool unreadable =
      std::any_of(listing.queue.begin(), listing.queue.end(),
                  [](const QueueEntry& each) { return each.details && each.details->unreadable; });
  if (unreadable) act(NoteKeptOut{std::make_unique<Listing>(listing)});
}

// Sets the watch. The same answer shows whether it came too late.
void AcquisitionFsm::wait_for(const QueueEntry& blocker) {
  view_->blocker = blocker;
  asks_seen_ = asks_;
  ask(State::kReadingBlocker, soon(), read_of(blocker, Watch::kHandoff));
}

void AcquisitionFsm::on_blocker(const Result<std::optional<Read>>& read) {
  const bool shared = entry_.key.shape == Shape::kShared;
  if (!*read || (shared && (*read)->details.weakened)) {
    view_->head.reset();
    return list(/*watching=*/false);
  }
  const Details& details = (*read)->details;
  if (details.over()) return drop(*view_->blocker, **read);
  if (details.left) view_->blocker_ends = context_->now + *details.left;
  Listing seen;
  seen.queue.push_back(*view_->blocker);
  seen.queue.back().details = details;
  note_kept_out(seen);
  // The blocker was admitted before the watch existed. An unreadable entry may be admitted, too,
  // and a watch on it would only report its end.
  const bool admitted =
      entry_.key.shape == Shape::kPermits && (details.marked || details.unreadable);
  if (admitted) return list(/*watching=*/true);
  stand_waiting();
}

// The entry before this one held alone and is gone, so this one is first. No token granted so far
// is larger than that holder's.
void AcquisitionFsm::on(const HandedOff& event) {
  const std::optional<QueueEntry> none;
  const std::optional<QueueEntry>& blocker = view_ ? view_->blocker : none;
  const bool next = state_ == State::kWaiting && blocker && blocker->key == event.by.key &&
                    blocker->order == event.by.order;
  const bool newer = entry_.created != 0 && entry_.created > event.last.counter;
  const bool alike = entry_.key.shape == Shape::kExclusive && !written_.marked;
  const SessionView& session = context_->session;
  const bool lives = epoch_ == session.epoch && session.deadline > context_->now;
  if (next && newer && alike && lives) return admit(event.last.counter);
  on(Woken{});
}

// A heartbeat's safety poll. It costs one small answer, however long the queue is.
void AcquisitionFsm::poll(BootInstant deadline) {
  if (state_ != State::kWaiting) {
    // A decision under way answers at its end.
    const bool parked = state_ == State::kLookPause || state_ == State::kSessionLost;
    return parked ? look() : void();
  }
  if (!view_->blocker) return look();
  asks_seen_ = asks_;
  ask(State::kPolling, deadline, read_of(*view_->blocker, Watch::kKeep));
}

void AcquisitionFsm::on_polled(const Result<std::optional<Read>>& read) {
  enter_waiting();
  if (!read) {
    answer(read.error());
    return look_again_ ? look() : void();
  }
  const bool same =
      *read && !(*read)->details.weakened && !(*read)->details.marked && !(*read)->details.over();
  return same ? tell_waiting() : look();
}

void AcquisitionFsm::stand_waiting() {
  told_ = true;
  enter_waiting();
  tell_waiting();
}

void AcquisitionFsm::enter_waiting() {
  enter(State::kWaiting);
  set(kStateAlarm, view_->blocker_ends);
}

// The next look shows whether it was renewed meanwhile.
void AcquisitionFsm::drop(const QueueEntry& entry, const Read& read) {
  auto place = std::make_unique<QueueEntry>(entry);
  fill(*place, read);
  view_->head.reset();
  ask(State::kDropping, soon(), DropEntry{std::move(place)});
}

// Callers that asked after this request was sent may have newer information. Another look answers
// them.
void AcquisitionFsm::tell_waiting() {
  const std::uint32_t seen = std::min(asks_seen_, asks_);
  if (seen > 0) act(Answer{seen, status(*context_)});
  asks_ -= seen;
  asks_seen_ = 0;
  if (look_again_) return look();
  if (asks_ > 0) poll(soon());
}

// A waiter keeps its place in the queue when an answer fails, and looks again.
void AcquisitionFsm::look_failed(const Error& error) {
  if (keeping_ && keeping_->adopts) return fail_adoption(error);
  if (error.code() == Errc::kLost) return enter(State::kSessionLost);
  if (!detail::is_transient(error.code()) || !view_->request.may_wait) return leave(error);
  told_ = true;
  enter(State::kLookPause);
  set(kStateAlarm, context_->now + kPause);
  answer(status(*context_));
}

// --- Callers that do not wait.

void AcquisitionFsm::refuse_to_wait() {
  const Listing& listing = view_->listing;
  const auto doubt = contend::in_doubt(listing.queue, entry_.key.id, view_->record,
                                       listing.record_rev, view_->decision);
  if (!doubt) {
    note_kept_out(listing);
    return leave(AcquisitionState{.status = AcquisitionStatus::kBusy});
  }
  const QueueEntry& entry = listing.queue[*doubt];
  if (entry_.key.shape == Shape::kPermits && !entry.details) {
    // Several entries may be in doubt; one listing in full covers all.
    return ask(State::kListingInFull, soon(), ListInFull{});
  }
  view_->at = *doubt;
  view_->in_doubt = entry.details && entry.details->attempt;
  const Watch watch = view_->in_doubt ? Watch::kWake : Watch::kKeep;
  ask(State::kReadingFate, soon(), read_of(entry, watch));
}

void AcquisitionFsm::on_fate(const Result<std::optional<Read>>& read) {
  if (!*read) {
    view_->head.reset();
    return list(/*watching=*/false);
  }
  if (view_->in_doubt && (*read)->details.attempt) return stand_by();
  if ((*read)->details.over()) return drop(view_->listing.queue[view_->at], **read);
  fill(view_->listing.queue[view_->at], **read);
  refuse_to_wait();
}

// Waits until the fate of the earlier try is known, or until its own time is over
// (on_lease_alarm()).
void AcquisitionFsm::stand_by() {
  enter(State::kStandingBy);
  if (look_again_) return look();
  set(kStateAlarm, context_->now + kPoll);
}

}  // namespace holdfast::contend
