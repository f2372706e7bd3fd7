// How an acquisition holds by a lease of its own, which its session's end does not touch.
//
// Each request gives the contender a new lease, and writes the number of the owner's request for it
// (Kept::seq). It expects the contender unchanged. If that fails, another client may have adopted
// it, or an earlier request without an answer was applied: the contender tells which.
#include <algorithm>
#include <utility>

#include "src/contend/acquisition.h"
#include "src/contend/answers.h"
#include "src/contend/timing.h"
#include "src/port/outcome.h"

namespace holdfast::contend {
namespace {

using machine::Outcome;
using port::AcquisitionState;
using port::AcquisitionStatus;
using port::EndStatus;

// Each one fails only because of a write in between.
constexpr int kMostAttempts = 2;
// As in acquisition.cc.
constexpr int kRateError = 100;

Error changes_all_the_time() {
  return {Errc::kUnavailable, "the lease was changed by others during each attempt; try again"};
}

}  // namespace

// --- Adoption.

AcquisitionFsm AcquisitionFsm::adopt(const StoreTraits& traits, const port::RenewItem& item,
                                     BootInstant came, BootInstant deadline) {
  port::AcquireRequest request;
  request.name = item.name;
  request.id = item.id;
  request.may_wait = false;
  request.ttl = item.ttl;
  request.waiter_ttl = item.waiter_ttl;
  request.deadline = deadline;
  request.outlives_client = true;
  AcquisitionFsm adopted(traits, std::move(request), nullptr, came);
  adopted.written_.attempt = false;
  adopted.keeping_->adopts = true;
  adopted.seq_ = item.seq;
  return adopted;
}

void AcquisitionFsm::find_kept() { ask(State::kFinding, deadline_, ListInFull{}); }

void AcquisitionFsm::on_found(const Result<Listing>& listing) {
  if (unwanted_) return end(EndStatus::kGone);
  if (!listing) return fail_adoption(listing.error());
  const auto found =
      std::find_if(listing->queue.begin(), listing->queue.end(), [this](const QueueEntry& each) {
        return each.details && each.details->kept && each.details->kept->id == id_ &&
               !each.details->over();
      });
  if (found == listing->queue.end()) return end(EndStatus::kGone);
  entry_ = {found->key, found->order, found->created, found->modified};
  const Details& details = *found->details;
  written_ = written_in(details);
  owner_ = details.owner;
  owner_since_unix_ms_ = owner_ ? owner_->since_unix_ms : 0;
  keeping_->kept = details.kept;
  keeping_->theirs = details.kept->ttl;
  token_ = token_of(details, entry_.created, entry_.modified).counter;
  if (!overtaken(details)) keep_at_grant();
}

// Nothing of it is this client's, so it stays as it is in the store.
void AcquisitionFsm::fail_adoption(const Error& error) {
  const bool lost = error.code() == Errc::kLost;  // The session, not the lease.
  set_verdict(lost ? Error(Errc::kUnavailable, error.message()) : error);
  end(EndStatus::kGone);
}

// A client that renews the same lease has made a later request.
bool AcquisitionFsm::overtaken(const Details& details) {
  if (!details.kept || details.kept->seq <= seq_) return false;
  set_verdict(AcquisitionState{.status = AcquisitionStatus::kHeld,
                               .token = token(),
                               .seq = details.kept->seq,
                               .lease = details.kept->ttl});
  end(EndStatus::kGone);
  return true;
}

// --- The grant.

void AcquisitionFsm::keep_at_grant() {
  written_.token = token_;
  KeepEntry keep = next_keep();
  ask(State::kKeeping, keeping_->adopts ? deadline_ : soon(), std::move(keep));
}

void AcquisitionFsm::on_kept_at_grant(const Result<std::optional<Read>>& kept) {
  if (*kept) {
    note_kept(**kept);
    return grant();
  }
  if (++keeping_->attempts > kMostAttempts) return look_failed(changes_all_the_time());
  ask(State::kLearningNumber, soon(), ReadEntry{std::make_unique<QueueEntry>(entry())});
}

KeepEntry AcquisitionFsm::next_keep() {
  Keeping& keeping = *keeping_;
  keeping.perhaps = true;
  keeping.sent = context_->now;
  keeping.lets_go = keeping.letting_go != nullptr;
  keeping.weakens = rewriting_;
  keeping.seq = keeping.lets_go ? keeping.letting_go->seq : seq_;
  // Nobody's lease ends sooner because of a renewal: somebody may count on it.
  const auto left = std::chrono::ceil<machine::Duration>(keeping.until - keeping.sent);
  const auto least = kept() ? std::max(keeping.theirs, left) : keeping.theirs;
  keeping.ttl = keeping.lets_go ? keeping.letting_go->ttl : std::max(ttl_, least);
  Written& writing = begin_writing();
  if (rewriting_) writing.weakened = true;
  writing.token = token_;
  Kept kept = keeping.kept ? *keeping.kept : Kept{};
  kept.id = id_;
  kept.seq = keeping.seq;
  kept.ttl = keeping.ttl;
  if (kept.created == 0) kept.created = entry_.created;
  KeepEntry keep{std::make_unique<Details>(details_of(writing)), nullptr};
  keep.details->kept = std::make_shared<const Kept>(std::move(kept));
  if (keeping.lets_go && keeping.letting_go->value) {
    keep.value = std::make_unique<std::string>(*keeping.letting_go->value);
  }
  return keep;
}

void AcquisitionFsm::note_kept(const Read& read) {
  writing_.reset();
  written_ = written_in(read.details);
  keeping_->kept = read.details.kept;
  entry_.modified = read.modified;
  keeping_->from = keeping_->sent;
  keeping_->until = keeping_->sent + keeping_->ttl;
  keeping_->attempts = 0;
  keeping_->theirs = {};
}

// --- While it holds.

void AcquisitionFsm::on(LetGo& event) {
  if (!held()) {
    return act(AnswerKeeps{port::to_done({.outcome = Outcome::kNotHeld}, lock_)});
  }
  if (!keeping_) keeping_ = std::make_unique<Keeping>();
  keeping_->letting_go = std::make_unique<LetGo>(std::move(event));
  clear(kShowAlarm);  // The request shows it, too.
  keep_beside(keeping_->letting_go->deadline);
}

// One request at a time. A wish that comes meanwhile is part of the next one.
void AcquisitionFsm::keep_beside(BootInstant deadline) {
  Keeping& keeping = *keeping_;
  keeping.deadline = std::max(keeping.deadline, deadline);
  if (std::exchange(keeping.busy, true)) return;
  keeping.reading = false;
  ask_beside(Slot::kKeep, keeping.deadline, next_keep());
}

void AcquisitionFsm::on_kept(const Result<std::optional<Read>>& reply) {
  Keeping& keeping = *keeping_;
  keeping.busy = false;
  if (!held()) return;
  if (!reply) return fail_keeping(reply.error());
  if (keeping.reading) return on_reread(reply);
  if (!*reply) {
    if (++keeping.attempts > kMostAttempts) return fail_keeping(changes_all_the_time());
    keeping.busy = keeping.reading = true;
    return ask_beside(Slot::kKeep, keeping.deadline,
                      ReadEntry{std::make_unique<QueueEntry>(entry())});
  }
  note_kept(**reply);
  if (keeping.lets_go) {
    keeping.letting_go.reset();
    act(AnswerKeeps{true});
    return end(EndStatus::kGone);
  }
  if (keeping.weakens) {
    rewriting_ = false;
    act(AnswerDowngrades{status(*context_)});
  }
  watch_lease();
  if (keeping.seq == seq_) answer(status(*context_));
  if (asks_ > 0 || rewriting_ || keeping.letting_go) keep_beside(keeping.deadline);
}

// It was written since: by a request of this client without an answer, or by another client.
void AcquisitionFsm::on_reread(const Result<std::optional<Read>>& read) {
  Keeping& keeping = *keeping_;
  if (!*read) return lose_kept();
  entry_.modified = (*read)->modified;
  keeping.kept = (*read)->details.kept;
  keeping.perhaps = kept() || keeping.kept;
  if (keeping.kept) keeping.theirs = keeping.kept->ttl;
  const std::uint64_t wanted = keeping.letting_go ? keeping.letting_go->seq : seq_;
  if (keeping.kept && keeping.kept->seq > wanted) {
    AcquisitionState theirs{.status = AcquisitionStatus::kHeld, .token = token()};
    theirs.seq = keeping.kept->seq;
    theirs.lease = keeping.kept->ttl;
    answer(theirs);
    if (std::exchange(keeping.letting_go, nullptr)) {
      act(AnswerKeeps{port::to_done({.outcome = Outcome::kNotHeld}, lock_)});
    }
    if (!rewriting_) return;
  }
  keep_beside(keeping.deadline);
}

void AcquisitionFsm::fail_keeping(const Error& error) {
  Keeping& keeping = *keeping_;
  keeping.deadline = {};
  keeping.attempts = 0;
  // Without a session nothing was sent, and there will be another one.
  const Error why =
      error.code() == Errc::kLost ? Error(Errc::kUnavailable, error.message()) : error;
  answer(why);
  if (std::exchange(rewriting_, false)) act(AnswerDowngrades{why});
  if (std::exchange(keeping.letting_go, nullptr)) act(AnswerKeeps{why});
}

// The record tells whether somebody broke it.
void AcquisitionFsm::lose_kept() {
  if (std::exchange(keeping_->letting_go, nullptr)) {
    act(AnswerKeeps{port::to_done({.outcome = Outcome::kNotHeld}, lock_)});
  }
  ask_beside(Slot::kCheck, soon(), ReadRecord{});
}

// Its session has ended while it was let go: it is kept, or it has gone with the session.
void AcquisitionFsm::leave_in_doubt() {
  if (std::exchange(keeping_->letting_go, nullptr)) {
    act(AnswerKeeps{Error(Errc::kOutcomeUnknown, "the session has ended meanwhile")});
  }
  end(EndStatus::kGone);
}

// Its owner counts from the newest request, which may have failed.
AcquisitionState AcquisitionFsm::kept_state(AcquisitionState state) const {
  const auto left = std::chrono::floor<machine::Duration>(keeping_->until - seq_at_);
  const auto passed = std::chrono::ceil<machine::Duration>(
      std::max(keeping_->from - seq_at_, BootInstant::duration::zero()));
  state.lease = std::clamp(left - passed / kRateError, machine::Duration::zero(), ttl_);
  return state;
}

}  // namespace holdfast::contend
