#include "src/stores/failover/switch_fsm.h"

#include <algorithm>

namespace holdfast::stores::failover {

SwitchFsm::Query SwitchFsm::next(std::uint32_t unix_seconds) {
  Query question;
  question.phase = phase_;
  question.not_before = not_before_;
  question.reachable = !outage_since_;
  switch (phase_) {
    case Phase::kShare:
    case Phase::kConfirm:
    case Phase::kServe:
      question.epoch = record_->epoch;
      question.record = *record_;
      break;
    case Phase::kMark: {
      // The epoch of a drain that was not finished was never used, but may have been seen.
      const bool none = !wanted_from_;
      next_ = none ? terms_.first : *wanted_from_;
      const std::uint32_t before = none ? 0 : std::max(wanted_from_->epoch, next_.epoch);
      next_.last = none ? 0 : wanted_from_->draining ? wanted_from_->last : wanted_from_->epoch;
      next_.epoch = terms_.mutation.same_epoch ? std::max(before, 1U)
                                               : std::max(before + 1, unix_seconds);
      next_.active = target_;
      next_.draining = true;
      next_.authority_ms = std::max(next_.authority_ms, terms_.first.authority_ms);
      next_.longest_ms = std::max(next_.longest_ms, terms_.first.longest_ms);
      question.record = next_;
      break;
    }
    case Phase::kDrain:
      question.epoch = next_.last;
      question.record = next_;
      break;
    case Phase::kWait:
    case Phase::kStamp: question.record = next_; break;
    case Phase::kActivate:
      question.record = next_;
      question.record.draining = false;
      break;
    case Phase::kFollow:
    case Phase::kClaim:
    case Phase::kReread:
    case Phase::kUnclaim: break;
  }
  return question;
}

void SwitchFsm::see(BootInstant now, const std::optional<ChainRecord>& record) {
  if (record != record_) {
    record_since_ = now;
    outage_since_.reset();
    foreign_ = false;
  }
  record_ = record;
}

// A switch from the record as it is known now.
void SwitchFsm::want(std::uint32_t target) {
  wanted_from_ = record_;
  target_ = target;
  tried_ = 0;
  go(Phase::kClaim);
}

void SwitchFsm::on_answer(BootInstant now, const Answer& answer) {
  not_before_ = {};
  switch (phase_) {
    case Phase::kFollow: return on_followed(now, answer);
    case Phase::kShare:
      if (!answer.yes) rest(now, terms_.tick);
      return go(!answer.yes                   ? Phase::kFollow
                : terms_.mutation.no_confirm ? Phase::kServe
                                             : Phase::kConfirm);
    case Phase::kConfirm: {
      const bool same = answer.read && answer.record == record_;
      return go(same ? Phase::kServe : Phase::kFollow);
    }
    case Phase::kServe: return on_served(now, answer);
    case Phase::kClaim:
      if (answer.yes) return go(Phase::kReread);
      rest(now, terms_.tick);
      return go(Phase::kFollow);
    case Phase::kReread: return on_reread(answer);
    case Phase::kMark:
      if (answer.yes && terms_.mutation.no_drain) return go(Phase::kStamp);
      return go(answer.yes ? Phase::kDrain : Phase::kUnclaim);
    case Phase::kDrain:
      if (answer.yes) {
        // Where there was no record, nobody can be asked who still has an authority lease.
        const std::uint32_t authority = next_.last == 0 ? next_.authority_ms : 0;
        rest(now, std::chrono::milliseconds(authority + next_.longest_ms) * 102 / 100);
        return go(Phase::kWait);
      }
      rest(now, terms_.tick);
      return;
    case Phase::kWait: return go(answer.yes ? Phase::kStamp : Phase::kUnclaim);
    case Phase::kStamp: return on_stamped(answer);
    case Phase::kActivate:
      if (answer.yes) ordered_.reset();  // Or it would be tried for ever where it is away.
      return go(Phase::kUnclaim);
    case Phase::kUnclaim:
      wanted_from_.reset();
      return go(Phase::kFollow);
  }
}

void SwitchFsm::on_followed(BootInstant now, const Answer& answer) {
  if (!answer.read) return rest(now, terms_.tick);
  see(now, answer.record);
  if (!record_) return want(ordered_.value_or(0));
  // Whoever drains may have died: its lock on the record tells.
  if (record_->draining) return want(ordered_.value_or(record_->active));
  if (ordered_ == record_->active) ordered_.reset();
  if (ordered_) return want(*ordered_);
  go(Phase::kShare);
}

void SwitchFsm::on_served(BootInstant now, const Answer& answer) {
  if (!answer.yes || !answer.read || answer.record != record_) return go(Phase::kFollow);
  if (ordered_ && *ordered_ != record_->active) return want(*ordered_);
  ordered_.reset();
  rest(now, terms_.tick);
  const Stamp stamp = terms_.mutation.no_stamp && answer.stamp == Stamp::kMissing ? Stamp::kOurs
                                                                                  : answer.stamp;
  foreign_ = stamp == Stamp::kForeign;
  if (stamp == Stamp::kMissing) return want(record_->active);
  if (stamp != Stamp::kUnreachable) return outage_since_.reset();
  if (!outage_since_) outage_since_ = now;
  const bool long_enough = now - *outage_since_ >= terms_.patience;
  const bool settled = now - record_since_ >= terms_.settled;
  const bool others = answer.others_reach_it && !terms_.mutation.alone;
  if (long_enough && settled && !others) want(after(record_->active));
}

void SwitchFsm::on_reread(const Answer& answer) {
  if (!answer.read || answer.record != wanted_from_) return go(Phase::kUnclaim);
  if (!terms_.mutation.no_mark) return go(Phase::kMark);
  static_cast<void>(phase_ = Phase::kMark, next(0));  // Chooses the epoch, and writes nothing.
  go(Phase::kDrain);
}

void SwitchFsm::on_stamped(const Answer& answer) {
  if (answer.yes) return go(Phase::kActivate);
  // The target is away, or belongs to another chain: the next one, with a mark of its own. The one
  // that was used before is tried last.
  wanted_from_ = next_;
  target_ = after(target_);
  go(++tried_ < terms_.stores ? Phase::kMark : Phase::kUnclaim);
}

}  // namespace holdfast::stores::failover
