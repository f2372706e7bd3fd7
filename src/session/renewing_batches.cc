// Renewals, heartbeats and adoptions leave in batches, on the renewal thread.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "src/session/core_call.h"
#include "src/session/renewing.h"

namespace holdfast::session {
namespace {

// A batch that is given up just before it is sent does not notice. So the store is asked again
// after this time.
constexpr Nanos kGiveUpAgain = std::chrono::milliseconds(10);

}  // namespace

void Renewing::send_out(const AcquisitionPtr& acquisition, std::uint64_t seq, bool waiting) {
  const Duration waiter_ttl = RenewalSchedule::waiter_lease(acquisition->ttl);
  Outgoing outgoing{acquisition,
                    {stored(acquisition->name),
                     acquisition->id,
                     seq,
                     acquisition->lease_at_store(),
                     waiter_ttl,
                     {}},
                    waiter_ttl,
                    waiting};
  if (!waiting) {
    acquisition->wall_minus_boot_at_send = base::wall_minus_boot().count();
    const RenewalFsm& renewal = *acquisition->renewal;
    outgoing.item.token = acquisition->token;
    outgoing.lease = renewal.lease();
    outgoing.planned = renewal.planned_at();
    outgoing.end = renewal.deadline();
  }
  put_out(std::move(outgoing));
}

void Renewing::put_out(Outgoing outgoing) {
  const BootInstant now = base::BootClock::now();
  const Nanos left = std::max<Nanos>(outgoing.end - now, Nanos::zero());
  // A batch under way may hang. A renewal waits for it for a part of its own lease, then the batch
  // is given up.
  outgoing.waits_until = now + std::min(RenewalSchedule(outgoing.lease).batch_wait(), left / 2);
  outgoing.group = store_->renewal_group(outgoing.item.name);
  outbox_waits_until_ = std::min(outbox_waits_until_, outgoing.waits_until);
  outbox_.push_back(std::move(outgoing));
  if (under_way_ != nullptr) arm(outbox_waits_until_);
}

// The renewal thread takes all that has gathered by the time it gets to it.
void Renewing::send_outbox() {
  renewal_.post([this] {
    while (send_batch()) {
    }
  });
}

bool Renewing::send_batch() {
  const auto batch = std::make_shared<Batch>();
  std::vector<port::RenewItem> items = take_outbox(*batch);
  if (items.empty()) return false;
  store_->renew(std::move(items), batch->deadline,
                [this, batch](const Result<std::vector<Result<port::AcquisitionState>>>& replies) {
                  on_answered(*batch, replies);
                });
  const base::LocalLock lock(mutex_);
  under_way_ = nullptr;
  return true;
}

// Renewals go first, then heartbeats, then adoptions, each in batches of their own. A heartbeat may
// be answered long before a renewal that replicas have to confirm, and its lease may be shorter.
// An adoption may take longer, and is retried at once. A batch has one of the store's groups.
std::vector<port::RenewItem> Renewing::take_outbox(Batch& batch) {
  std::vector<port::RenewItem> items;
  const base::LocalLock lock(mutex_);
  const auto rank = [](const Outgoing& each) { return each.adopted ? 2 : each.waiting ? 1 : 0; };
  const auto kind = [&](const Outgoing& each) { return std::pair(rank(each), each.group); };
  auto first = std::pair(2, std::numeric_limits<std::uint32_t>::max());
  for (const Outgoing& each : outbox_) first = std::min(first, kind(each));
  const auto end = std::stable_partition(outbox_.begin(), outbox_.end(),
                                         [&](const Outgoing& each) { return kind(each) == first; });
  batch.sent.assign(std::move_iterator(outbox_.begin()), std::move_iterator(end));
  outbox_.erase(outbox_.begin(), end);
  outbox_.shrink_to_fit();  // It may have been thousands, and is empty for most of a lease.
  outbox_waits_until_ = BootInstant::max();
  for (const Outgoing& left : outbox_) {
    outbox_waits_until_ = std::min(outbox_waits_until_, left.waits_until);
  }
  if (batch.sent.empty()) return items;
  under_way_ = &batch;
  if (!outbox_.empty()) arm(outbox_waits_until_);
  const BootInstant now = base::BootClock::now();
  batch.deadline = request_deadline();
  items.reserve(batch.sent.size());
  for (Outgoing& outgoing : batch.sent) {
    outgoing.sent_at = now;
    items.push_back(outgoing.item);
    // One lease that cannot wait limits the whole batch, because all its answers come together.
    batch.deadline = std::min(batch.deadline, request_end(outgoing, now));
  }
  return items;
}

BootInstant Renewing::request_end(const Outgoing& outgoing, BootInstant now) {
  if (outgoing.adopted) return outgoing.end;
  // A lease that is left to the store for a moment is not tried again.
  if (outgoing.acquisition->being_left) return BootInstant::max();
  return now + RenewalSchedule(outgoing.lease).request_time();
}

void Renewing::give_up_renewal(BootInstant now) {
  if (under_way_ == nullptr) return;
  if (now < outbox_waits_until_) return arm(outbox_waits_until_);
  under_way_->given_up = true;
  store_->give_up_renewal();
  arm(now + kGiveUpAgain);
}

void Renewing::on_answered(const Batch& batch,
                           const Result<std::vector<Result<port::AcquisitionState>>>& replies) {
  const Turn turn(*this);
  const BootInstant now = base::BootClock::now();
  const bool given_up = batch.given_up || now >= batch.deadline;
  for (std::size_t i = 0; i < batch.sent.size(); ++i) {
    const Outgoing& sent = batch.sent[i];
    Result<port::AcquisitionState> reply =
        replies ? (*replies)[i] : Result<port::AcquisitionState>(replies.error());
    if (sent.adopted) {
      answers_.emplace_back(
          [done = sent.adopted, reply = AdoptReply{std::move(reply), given_up}] { done(reply); });
    } else if (sent.acquisition->id == sent.item.id) {
      on_renewed(sent, now, reply);
    }
  }
}

}  // namespace holdfast::session
