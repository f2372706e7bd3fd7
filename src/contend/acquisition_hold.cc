// How an acquisition is granted, and what it does while it holds.
#include <algorithm>
#include <cassert>

#include "holdfast/detail/transient.h"
#include "src/contend/acquisition.h"
#include "src/contend/acquisition_table.h"
#include "src/contend/answers.h"
#include "src/contend/timing.h"
#include "src/port/outcome.h"

namespace holdfast::contend {
namespace {

using port::AcquisitionState;
using port::AcquisitionStatus;

// A try that is released within this time saves a write. Another caller that does not wait is
// delayed by at most this.
constexpr auto kShown = std::chrono::milliseconds(20);
constexpr auto kTick = std::chrono::milliseconds(20);

}  // namespace

// A step of the store that writes the record if it is unchanged and this contender is still there.
Change AcquisitionFsm::change_by(const Listing& listing, const Record& record) const {
  Change change;
  change.lock = lock_;
  change.epoch = epoch_;
  change.record_rev = listing.record_rev;
  change.record = still_valid(listing.queue, record, listing.record_rev);
  change.present = entry();
  return change;
}

// If several entries could newly hold beside an upgrade, only the one that writes the unchanged
// record may.
void AcquisitionFsm::settle() {
  Change change = change_by(view_->listing, view_->record);
  if (entry_.key.shape == Shape::kUpgrade) change.record->upgrade = entry_.key.id;
  ask(State::kSettling, soon(), Apply{std::make_unique<Change>(std::move(change))});
}

void AcquisitionFsm::on_settled(const Result<std::optional<std::uint64_t>>& applied) {
  if (!*applied) return list(/*watching=*/false);
  admit(**applied);
}

// The queue admits it. It holds as soon as its token is known to be larger than all earlier ones.
void AcquisitionFsm::admit(std::uint64_t record_rev) {
  view_->record_rev = record_rev;
  if (system()) return ask(State::kListingShrink, soon(), ListInFull{});
  if (traits_->gated && !written_.marked) return pass_gate();
  if (entry_.created == 0) {
    // After a lost reply it was found again, but its number is unknown.
    return ask(State::kLearningNumber, soon(), ReadEntry{std::make_unique<QueueEntry>(entry())});
  }
  if (marked_late_) return ask(State::kListingOthers, soon(), ListInFull{});
  // Permits are granted in the order of creation, because they have no upgrades. A waiter behind
  // one watches for its mark.
  const bool permits = entry_.key.shape == Shape::kPermits;
  const bool to_be_shown = permits && queued_ && !written_.marked && !perhaps_kept();
  const auto token =
      token_at_grant(marks_of(written_), entry_.created, entry_.modified, permits ? 0 : record_rev);
  if (!token || to_be_shown) return mark(token);
  token_ = token->counter;
  grant();
}

void AcquisitionFsm::on_number(const Result<std::optional<Read>>& read) {
  if (!*read) return taken_away();
  entry_.created = (*read)->created;
  entry_.modified = (*read)->modified;
  if (keeping_) keeping_->kept = (*read)->details.kept;
  if (keeping_ && keeping_->kept) keeping_->theirs = keeping_->kept->ttl;
  if (keeping_ && keeping_->adopts) return overtaken((*read)->details) ? void() : keep_at_grant();
  admit(view_->record_rev);
}

// Without a token of its own, the number of this write becomes the token. It is larger than the
// numbers of all existing contenders.
void AcquisitionFsm::mark(std::optional<machine::Token> token) {
  Written& writing = begin_writing();
  writing.marked = true;
  if (token) writing.token = token->counter;
  ask(State::kMarking, soon(), WriteDetails{std::make_unique<Details>(details_of(writing))});
}

void AcquisitionFsm::on_marked(const Result<std::optional<Read>>& written) {
  if (!*written) return taken_away();
  adopt_written(**written);
  if (written_.token != 0) return grant();
  // Contenders that were created before the mark have smaller numbers, but hold later. A newer
  // record tells them to mark themselves, too.
  marked_late_ = true;
  ask(State::kListingOthers, soon(), ListInFull{});
}

Details AcquisitionFsm::marks_of(const Written& written) {
  Details details;
  details.weakened = written.weakened;
  details.marked = written.marked;
  details.attempt = written.attempt;
  if (written.token != 0) details.token = written.token;
  return details;
}

// The owner is shared with other acquisitions, less the time (share_owner()).
Details AcquisitionFsm::details_of(const Written& written) const {
  Details details = marks_of(written);
  if (keeping_) details.kept = keeping_->kept;
  if (owner_) {
    auto owner = std::make_shared<machine::OwnerInfo>(*owner_);
    owner->since_unix_ms = owner_since_unix_ms_;
    details.owner = std::move(owner);
  }
  return details;
}

AcquisitionFsm::Written AcquisitionFsm::written_in(const Details& details) {
  return {details.weakened, details.marked, details.attempt, details.token.value_or(0)};
}

AcquisitionFsm::Written& AcquisitionFsm::begin_writing() {
  writing_ = std::make_unique<Written>(written_);
  writing_->attempt = false;
  return *writing_;
}

void AcquisitionFsm::adopt_written(const Read& read) {
  written_ = *std::exchange(writing_, nullptr);
  entry_.created = read.created;
  entry_.modified = read.modified;
  token_ = token_of(marks_of(written_), entry_.created, entry_.modified).counter;
}

void AcquisitionFsm::on_others_listed(const Result<Listing>& listing) {
  if (listing->record_rev > entry_.modified) return grant();
  ask(State::kOutdatingOthers, soon(),
      Apply{std::make_unique<Change>(change_by(*listing, listing->record.value_or(Record{})))});
}

void AcquisitionFsm::pass_gate() {
  Written& writing = begin_writing();
  writing.marked = true;
  asks_seen_ = asks_;
  ask(State::kPassingGate, soon(), PassGate{std::make_unique<Details>(details_of(writing))});
}

void AcquisitionFsm::on_gate(const Result<Gate>& gate) {
  view_->gate_opens_at.reset();
  if (gate->passed) {
    adopt_written(*gate->passed);
    return grant();
  }
  if (gate->opens_in) view_->gate_opens_at = context_->now + *gate->opens_in;
  if (!view_->request.may_wait) {
    return leave(
        AcquisitionState{.status = AcquisitionStatus::kBusy, .next_expiry = gate->opens_in});
  }
  queued_ = true;
  view_->blocker.reset();
  stand_waiting();
}

// Writes N before it removes the entry, so that in between too few holders are admitted rather than
// too many.
void AcquisitionFsm::on_shrink_listed(const Result<Listing>& listing) {
  const Record record = listing->record.value_or(Record{});
  const std::uint32_t now = capacity_of(listing->queue, record, listing->record_rev);
  Change change = change_by(*listing, record);
  change.present.reset();
  change.record->capacity = now - std::min(now - 1, entry_.key.permits);
  change.removed.push_back(entry());
  view_->others.clear();
  for (const QueueEntry& each : listing->queue) {
    if (each.details) view_->others.push_back(each.details->session);
  }
  ask(State::kShrinking, soon(), Apply{std::make_unique<Change>(std::move(change))});
}

void AcquisitionFsm::on_shrunk(const Result<std::optional<std::uint64_t>>& applied) {
  if (!*applied) return list(/*watching=*/false);
  NotifySessions others{std::move(view_->others)};
  set_verdict(AcquisitionState{.status = AcquisitionStatus::kHeld});
  end(port::EndStatus::kReleased);
  act(std::move(others));
}

void AcquisitionFsm::grant() {
  if (keeping_ && !kept()) return keep_at_grant();
  enter(State::kHeld);
  marked_late_ = false;
  told_until_ = told_until();
  watch_lease();
  if (written_.attempt) set(kShowAlarm, context_->now + kShown);
  if (told_) tell(port::Push::Kind::kGranted);
  answer(status(*context_));
}

// --- While it holds.

// A try that holds removes its mark, so that others see a holder.
void AcquisitionFsm::show() {
  if (!held() || !written_.attempt || perhaps_kept()) return;
  if (rewriting_) return set(kShowAlarm, context_->now + kPause);  // It removes the mark, too.
  Written shown = written_;
  shown.attempt = false;
  shown.token = token_;
  ask_beside(Slot::kShow, soon(), WriteDetails{std::make_unique<Details>(details_of(shown))});
}

void AcquisitionFsm::on_shown(const Result<std::optional<Read>>& written) {
  if (!held()) return;
  if (!written) {
    const auto pause = detail::is_transient(written.error().code()) ? kPause : kLongPause;
    return set(kShowAlarm, context_->now + pause);
  }
  if (!*written) return ask_beside(Slot::kCheck, soon(), ReadRecord{});
  entry_.modified = (*written)->modified;
  // A write that was requested meanwhile has newer values in the other fields.
  written_.attempt = false;
  written_.token = token_;
}

// A notification comes only once, so a failed check is repeated.
void AcquisitionFsm::check() {
  if (held()) ask_beside(Slot::kCheck, soon(), ReadEntry{std::make_unique<QueueEntry>(entry())});
}

void AcquisitionFsm::on_checked(const Result<std::optional<Read>>& read) {
  if (!held()) return;
  if (read && !*read) return ask_beside(Slot::kCheck, soon(), ReadRecord{});
  if (!read && detail::is_transient(read.error().code())) set(kCheckAlarm, context_->now + kPause);
}

// Its contender is gone. The record shows whether somebody broke it.
void AcquisitionFsm::on_reason(const Result<std::pair<Record, std::uint64_t>>& record) {
  if (!held()) return;
  const bool broken = record && record->first.broken && record->first.broken->token == token_;
  if (broken) {
    const Trace& trace = *record->first.broken;
    const BreakInfo info{port::to_public(token()), port::to_public(trace.by)};
    const Error why = port::broken_error(lock_, info);
    act(NoteBroken{why});
    set_verdict(why);  // Answers a renewal under way.
  }
  taken_away();
}

// Two downgrades at the same time share one write.
void AcquisitionFsm::on(const Weaken& event) {
  if (!held()) return act(AnswerDowngrades{gone()});
  if (rewriting_) return;
  if (perhaps_kept()) {
    rewriting_ = perhaps_weakened_ = true;
    return keep_beside(event.deadline);
  }
  Written& writing = begin_writing();
  writing.weakened = true;
  writing.token = token_;
  rewriting_ = perhaps_weakened_ = true;
  ask_beside(Slot::kRewrite, event.deadline,
             WriteDetails{std::make_unique<Details>(details_of(writing))});
}

void AcquisitionFsm::on_weakened(const Result<std::optional<Read>>& written) {
  rewriting_ = false;
  if (!written) return act(AnswerDowngrades{written.error()});
  if (!*written || !held()) return act(AnswerDowngrades{gone()});
  written_ = *std::exchange(writing_, nullptr);
  entry_.modified = (*written)->modified;
  act(AnswerDowngrades{status(*context_)});
}

// --- Renewals.

std::optional<Result<AcquisitionState>> AcquisitionFsm::renew(const port::RenewItem& item,
                                                              BootInstant came,
                                                              BootInstant deadline,
                                                              const Context& context,
                                                              Actions& actions) {
  if (leaving() || ended() || system()) return Result<AcquisitionState>(gone());
  context_ = &context;
  actions_ = &actions;
  const bool newer = item.seq > seq_;
  if (newer &&
      (item.ttl <= machine::Duration::zero() || item.waiter_ttl <= machine::Duration::zero())) {
    return port::to_ticket_state({.outcome = machine::Outcome::kInvalid}, item.name, {});
  }
  if (held() && perhaps_kept()) {
    if (!newer) return Result<AcquisitionState>(status(context));
    ++asks_;
    seq_ = item.seq;
    seq_at_ = came;
    ttl_ = item.ttl;
    keep_beside(deadline);
    return std::nullopt;
  }
  // The answer would bring nothing new, and the session is confirmed again soon.
  const bool stale = newer && context.session.deadline <= told_until_;
  if (held() && (context.session.in_doubt || stale)) {
    ++asks_;
    await_session(item, came, deadline);
    return std::nullopt;
  }
  if (newer) {
    seq_ = item.seq;
    seq_at_ = came;
    ttl_ = item.ttl;
    if (view_) view_->request.waiter_ttl = item.waiter_ttl;
  }
  if (!held()) {
    ++asks_;
    [[maybe_unused]] const State before = state_;
    if (waits()) poll(deadline);
    assert(allowed(before, EventKind::kRenewal, state_));
    return std::nullopt;
  }
  told_until_ = told_until();
  return Result<AcquisitionState>(status(context));
}

// If the caller knows this answer already, it comes a little later, so that a caller which asks in
// a loop asks only a few times in a second. A session in doubt may be confirmed until the deadline.
void AcquisitionFsm::await_session(const port::RenewItem& item, BootInstant came,
                                   BootInstant deadline) {
  if (item.seq > seq_) {
    seq_ = item.seq;
    seq_at_ = came;
  }
  beside().answer_from = context_->now + kPause * 2;
  beside().answer_by = deadline;
  answer_when_confirmed();
  forget_beside();
}

void AcquisitionFsm::answer_when_confirmed() {
  if (!held() || asks_ == 0) return;
  const SessionView& session = context_->session;
  const BootInstant next = context_->now + kTick;
  const bool confirmed =
      !session.in_doubt && (session.deadline > told_until_ || next >= beside().answer_from);
  if (!confirmed && next < beside().answer_by) return set(kConfirmAlarm, next);
  if (session.in_doubt) {
    act(NoteUnheard{keepalives_unanswered()});
    return answer(keepalives_unanswered());
  }
  told_until_ = told_until();
  answer(status(*context_));
}

// The end of the time that this answer gives. It may be limited by the ttl, because the servers may
// have made the session longer.
AcquisitionFsm::BootInstant AcquisitionFsm::told_until() const {
  return std::min(context_->session.deadline, seq_at_ + ttl_);
}

}  // namespace holdfast::contend
