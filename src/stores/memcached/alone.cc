#include "src/stores/memcached/alone.h"

namespace holdfast::stores::memcached {

using machine::AcquisitionId;
using machine::Duration;
using machine::Instant;
using machine::Outcome;

std::optional<machine::Reply> take_alone(const machine::Acquire& acquire, Instant at,
                                         std::uint64_t floor, machine::LockImage& lock) {
  const bool plain = acquire.mode.kind == machine::ModeKind::kExclusive && !acquire.upgrade_of;
  const bool formed = !acquire.name.empty() && acquire.id && acquire.ttl > Duration::zero() &&
                      (!acquire.may_wait || acquire.waiter_ttl > Duration::zero());
  // The machine knows what to do at the end of its numbers.
  const bool fits = floor < UINT64_MAX / 2 && acquire.ttl < Instant::max() - at;
  if (!plain || !formed || !fits) return std::nullopt;
  lock.kind = machine::ModeKind::kExclusive;
  lock.capacity = 1;
  lock.last_token = {0, floor + 1};
  lock.next_order = 2;
  machine::TicketImage& ticket = lock.tickets.emplace_back();
  ticket.id = acquire.id;
  ticket.order = 1;
  ticket.held = true;
  ticket.token = lock.last_token;
  ticket.lease_end = at + acquire.ttl;
  ticket.lease = ticket.ttl = acquire.ttl;
  ticket.waiter_ttl = acquire.waiter_ttl;
  ticket.owner = acquire.owner;
  return machine::Reply{.outcome = Outcome::kHeld,
               .token = ticket.token,
               .lease_end = ticket.lease_end,
               .lease = ticket.lease};
}

std::optional<machine::Reply> leave_alone(const Document& document, AcquisitionId id, Instant at) {
  const machine::LockImage& lock = document.image;
  if (document.keep || document.broken || !lock.value.empty() || !lock.tombstones.empty()) {
    return std::nullopt;
  }
  if (lock.tickets.size() != 1 || !id) return std::nullopt;
  const machine::TicketImage& ticket = lock.tickets.front();
  if (ticket.id != id || !ticket.held || ticket.lease_end <= at) return std::nullopt;
  return machine::Reply{.outcome = Outcome::kReleased};
}

}  // namespace holdfast::stores::memcached
