#include "src/rows/lock_rows.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "src/port/outcome.h"
#include "src/rows/owner_codec.h"

namespace holdfast::rows {
namespace {

using machine::AcquisitionId;
using machine::Duration;
using machine::Effect;
using machine::EffectKind;
using machine::Instant;
using machine::LockImage;
using machine::ModeKind;
using machine::TicketImage;

constexpr std::int64_t kLargest = std::numeric_limits<std::uint32_t>::max();

std::int64_t count_of(machine::Token token) { return static_cast<std::int64_t>(token.counter); }

bool small(std::int64_t value, std::int64_t limit) { return value >= 0 && value <= limit; }

// Reads the columns that both kinds of row have.
bool read_common(const TicketRow& row, const LockImage& lock, TicketImage& out) {
  if (!row.id || !small(row.mode, 2) || !small(row.permits, kLargest)) return false;
  auto owner = decode_owner(row.owner);
  if (!owner) return false;
  out.id = row.id;
  out.mode = {static_cast<ModeKind>(row.mode), static_cast<std::uint32_t>(row.permits),
              lock.capacity};
  out.seq = static_cast<std::uint64_t>(row.seq);
  out.lease_end = Instant(Duration(row.lease_end));
  out.lease = Duration(row.lease);
  out.ttl = Duration(row.ttl);
  out.waiter_ttl = Duration(row.waiter_ttl);
  out.owner = std::move(*owner);
  return true;
}

TicketRow row_of(const TicketImage& ticket) {
  TicketRow row;
  row.order = static_cast<std::int64_t>(ticket.order);
  row.id = ticket.id;
  row.flags = (ticket.held ? kHeldFlag : 0) | (ticket.system ? kSystemFlag : 0);
  row.mode = static_cast<std::int64_t>(ticket.mode.kind);
  row.permits = ticket.mode.permits;
  row.upgrade_of = ticket.upgrade_of;
  row.token = count_of(ticket.token);
  row.seq = static_cast<std::int64_t>(ticket.seq);
  row.lease_end = ticket.lease_end.time_since_epoch().count();
  row.lease = ticket.lease.count();
  row.ttl = ticket.ttl.count();
  row.waiter_ttl = ticket.waiter_ttl.count();
  if (ticket.owner) encode_owner(ticket.owner, ticket.owner->wake, row.owner);
  return row;
}

// The only ticket, if it is a plain holder with the lock's last token.
const TicketImage* solo_of(const StoredLock& before, const LockImage* after) {
  if (after == nullptr || after->tickets.size() != 1 || before.left_out != 0) return nullptr;
  const TicketImage& ticket = after->tickets.front();
  const bool plain = ticket.held && !ticket.system && !ticket.upgrade_of;
  return plain && ticket.token == after->last_token ? &ticket : nullptr;
}

const TicketImage* find(const LockImage* image, AcquisitionId id) {
  if (image == nullptr) return nullptr;
  const auto found = std::find_if(image->tickets.begin(), image->tickets.end(),
                                  [&](const TicketImage& ticket) { return ticket.id == id; });
  return found == image->tickets.end() ? nullptr : &*found;
}

bool concerns_its_owner(EffectKind kind) {
  return kind == EffectKind::kGranted || kind == EffectKind::kDowngraded ||
         machine::ends_ticket(kind);
}

bool names_a_ticket(EffectKind kind) {
  return concerns_its_owner(kind) || kind == EffectKind::kQueued || kind == EffectKind::kExtended ||
         kind == EffectKind::kResized;
}

// The tickets whose rows change. N of a lock is part of every ticket's mode, but is stored once, in
// the lock's row.
std::vector<AcquisitionId> touched_by(const StoredLock& before, const TicketImage* solo,
                                      const machine::Effects& effects) {
  std::vector<AcquisitionId> touched;
  for (const Effect& effect : effects) {
    if (effect.id && names_a_ticket(effect.kind)) touched.push_back(effect.id);
  }
  // The holder was inline and no longer is, or the other way round.
  if (before.solo && (solo == nullptr || solo->id != before.solo)) touched.push_back(before.solo);
  if (solo != nullptr && solo->id != before.solo) touched.push_back(solo->id);
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  return touched;
}

LockRow changed_row(const StoredLock& before, const Outcome& outcome, const TicketImage* solo) {
  const LockImage& image = outcome.after != nullptr ? *outcome.after : before.image;
  LockRow row;
  row.name = before.image.name;
  row.token = count_of(before.image.last_token);
  for (const Effect& effect : *outcome.effects) {
    if (effect.kind == EffectKind::kGranted)
      row.token = std::max(row.token, count_of(effect.token));
  }
  row.at = outcome.at;
  // The step did not see tickets that were left out, so their earlier due time still counts.
  row.due = before.left_out == 0 ? outcome.due : std::min(outcome.due, before.due);
  // An inline holder has no row of its own, so it is not counted.
  if (outcome.after != nullptr && solo == nullptr) {
    row.tickets = static_cast<std::int64_t>(image.tickets.size()) + before.left_out;
  }
  row.next_order = static_cast<std::int64_t>(std::max<std::uint64_t>(image.next_order, 2));
  row.kind = static_cast<std::int64_t>(image.kind);
  row.capacity = image.capacity;
  if (solo != nullptr) row.solo = row_of(*solo);
  return row;
}

const std::string& wake_before(const StoredLock& before, const Effect& effect) {
  static const std::string none;
  if (const TicketImage* ticket = find(&before.image, effect.id)) {
    return ticket->owner ? ticket->owner->wake : none;
  }
  return effect.owner ? effect.owner->wake : none;
}

}  // namespace

machine::Token token_of(std::int64_t counter) {
  return {0, static_cast<std::uint64_t>(std::max<std::int64_t>(counter, 0))};
}

bool read_lock(const LockRow& row, StoredLock& lock) {
  const bool sound = (row.kind == 0 || row.kind == 2) && row.capacity >= 1 &&
                     small(row.capacity, kLargest) && row.next_order > 1 &&
                     (!row.solo || row.tickets == 0);
  if (!sound) return false;
  LockImage& image = lock.image;
  lock.exists = true;
  lock.at = row.at;
  lock.due = row.due;
  lock.tickets = row.tickets;
  image.name = row.name;
  image.last_token = token_of(row.token);
  image.next_order = static_cast<std::uint64_t>(row.next_order);
  image.kind = static_cast<ModeKind>(row.kind);
  image.capacity = static_cast<std::uint32_t>(row.capacity);
  if (!row.solo) return true;
  TicketImage ticket;
  if (!read_common(*row.solo, image, ticket)) return false;
  lock.solo = ticket.id;
  ticket.held = true;
  // For the only ticket any order below the next one is right.
  ticket.order = image.next_order - 1;
  ticket.token = image.last_token;
  image.tickets.push_back(std::move(ticket));
  return true;
}

bool read_ticket(const TicketRow& row, StoredLock& lock) {
  TicketImage ticket;
  if (!small(row.flags, 2) || !read_common(row, lock.image, ticket)) return false;
  ticket.order = static_cast<std::uint64_t>(row.order);
  ticket.held = (row.flags & kHeldFlag) != 0;
  ticket.system = (row.flags & kSystemFlag) != 0;
  ticket.upgrade_of = row.upgrade_of;
  ticket.token = token_of(row.token);
  lock.image.tickets.push_back(std::move(ticket));
  return true;
}

bool changes_anything(const machine::Effects& effects) {
  return std::any_of(effects.begin(), effects.end(),
                     [](const Effect& effect) { return effect.kind != EffectKind::kForgotten; });
}

Changes changes_of(const StoredLock& before, const Outcome& outcome) {
  Changes changes;
  const TicketImage* solo = solo_of(before, outcome.after);
  for (const AcquisitionId& id : touched_by(before, solo, *outcome.effects)) {
    const TicketImage* ticket = find(outcome.after, id);
    // A ticket that became the inline holder loses its row, too.
    if (ticket != nullptr && ticket != solo) {
      changes.saved.push_back(row_of(*ticket));
    } else {
      changes.dropped.push_back(id);
    }
  }
  for (const Effect& effect : *outcome.effects) {
    if (effect.kind == EffectKind::kValueSet) changes.value = effect.value;
    if (effect.kind != EffectKind::kBroken) continue;
    changes.broken = {count_of(effect.token), {}};
    encode_owner(effect.owner, {}, changes.broken->by);
  }
  changes.lock = changed_row(before, outcome, solo);
  return changes;
}

void collect_notices(const StoredLock& before, const machine::Effects& effects, AcquisitionId id,
                     const std::string& own, std::vector<Notice>& notices) {
  for (const Effect& effect : effects) {
    if (!concerns_its_owner(effect.kind)) continue;
    const std::string& wake = wake_before(before, effect);
    // The caller learns this from its reply. But the acquisition may have moved to another process,
    // which must be woken.
    if (effect.id == id && (wake == own || effect.kind == EffectKind::kGranted)) continue;
    Notice notice{effect.id, wake, std::nullopt};
    if (effect.kind == EffectKind::kGranted) notice.granted = port::held_state(effect);
    notices.push_back(std::move(notice));
  }
}

}  // namespace holdfast::rows
