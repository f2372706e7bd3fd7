#include "src/stores/sqlite/lock_rows.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "src/port/outcome.h"
#include "src/stores/sqlite/owner_codec.h"
#include "src/stores/sqlite/schema.h"

namespace holdfast::stores::sqlite {
namespace {

using machine::AcquisitionId;
using machine::Duration;
using machine::Effect;
using machine::EffectKind;
using machine::Instant;
using machine::LockImage;
using machine::ModeKind;
using machine::TicketImage;

std::int64_t count_of(Duration length) { return length.count(); }
std::int64_t count_of(Instant instant) { return instant.time_since_epoch().count(); }
std::int64_t count_of(machine::Token token) { return static_cast<std::int64_t>(token.counter); }

machine::Token token_of(std::int64_t counter) {
  return {0, static_cast<std::uint64_t>(std::max<std::int64_t>(counter, 0))};
}

bool small(std::int64_t value, std::int64_t limit) { return value >= 0 && value <= limit; }

bool read_mode(std::int64_t kind, std::int64_t permits, std::uint32_t capacity, TicketImage& out) {
  if (!small(kind, 2) || !small(permits, std::numeric_limits<std::uint32_t>::max())) return false;
  out.mode = {static_cast<ModeKind>(kind), static_cast<std::uint32_t>(permits), capacity};
  return true;
}

Error bad_row(const Database& database, std::string_view name) {
  return database.corrupt("the rows of lock '" + std::string(name) + "' make no sense");
}

Result<void> read_solo(Database& database, Statement& row, StoredLock& lock) {
  TicketImage ticket;
  ticket.id = row.id(8);
  lock.solo = ticket.id;
  ticket.held = true;
  // The only ticket: any order below the next one will do.
  ticket.order = lock.image.next_order - 1;
  ticket.token = lock.image.last_token;
  ticket.seq = static_cast<std::uint64_t>(row.integer(11));
  ticket.lease_end = Instant(Duration(row.integer(12)));
  ticket.lease = Duration(row.integer(13));
  ticket.ttl = Duration(row.integer(14));
  ticket.waiter_ttl = Duration(row.integer(15));
  auto owner = decode_owner(row.blob(16));
  const bool sound = ticket.id && owner.has_value() && ticket.order > 0 &&
                     read_mode(row.integer(9), row.integer(10), lock.image.capacity, ticket);
  if (!sound) return bad_row(database, lock.image.name);
  ticket.owner = std::move(*owner);
  lock.image.tickets.push_back(std::move(ticket));
  return {};
}

Result<void> read_ticket(Database& database, Statement& row, StoredLock& lock) {
  TicketImage ticket;
  ticket.order = static_cast<std::uint64_t>(row.integer(0));
  ticket.id = row.id(1);
  const std::int64_t flags = row.integer(2);
  ticket.held = (flags & kHeldFlag) != 0;
  ticket.system = (flags & kSystemFlag) != 0;
  ticket.upgrade_of = row.id(5);
  ticket.token = token_of(row.integer(6));
  ticket.seq = static_cast<std::uint64_t>(row.integer(7));
  ticket.lease_end = Instant(Duration(row.integer(8)));
  ticket.lease = Duration(row.integer(9));
  ticket.ttl = Duration(row.integer(10));
  ticket.waiter_ttl = Duration(row.integer(11));
  auto owner = decode_owner(row.blob(12));
  const bool sound = ticket.id && owner.has_value() && small(flags, 2) &&
                     read_mode(row.integer(3), row.integer(4), lock.image.capacity, ticket);
  if (!sound) return bad_row(database, lock.image.name);
  ticket.owner = std::move(*owner);
  lock.image.tickets.push_back(std::move(ticket));
  return {};
}

// In queue order, as far as that many waiters. True: there may be more.
Result<bool> read_tickets(Database& database, StoredLock& lock, std::size_t waiters) {
  Statement& rows = database.get(Sql::kLoadTickets);
  const ResetAtEnd reset(rows);
  rows.bind(1, std::string_view(lock.image.name));
  while (waiters > 0) {
    const int code = rows.step();
    if (code == SQLITE_DONE) return false;
    if (code != SQLITE_ROW) return database.error(code);
    if (auto read = read_ticket(database, rows, lock); !read) return read.error();
    const TicketImage& ticket = lock.image.tickets.back();
    if (ticket.held) continue;
    lock.reached = ticket.order;
    --waiters;
  }
  return true;
}

// Adds what `which` finds, but for what is there already.
Result<void> read_more(Database& database, StoredLock& lock, Sql which, const AcquisitionId& id) {
  Statement& rows = database.get(which);
  const ResetAtEnd reset(rows);
  rows.bind(1, std::string_view(lock.image.name));
  if (which == Sql::kLoadTicket) rows.bind(2, id);
  int code = rows.step();
  for (; code == SQLITE_ROW; code = rows.step()) {
    if (auto read = read_ticket(database, rows, lock); !read) return read;
    std::vector<TicketImage>& tickets = lock.image.tickets;
    TicketImage found = std::move(tickets.back());
    tickets.pop_back();
    const auto place = std::lower_bound(
        tickets.begin(), tickets.end(), found.order,
        [](const TicketImage& ticket, std::uint64_t order) { return ticket.order < order; });
    if (place != tickets.end() && place->order == found.order) continue;
    tickets.insert(place, std::move(found));
  }
  if (code != SQLITE_DONE) return database.error(code);
  return {};
}

bool has_shrink(const LockImage& image) {
  return std::any_of(image.tickets.begin(), image.tickets.end(),
                     [](const TicketImage& ticket) { return ticket.system; });
}

// `expected`: how many tickets there are.
Result<void> read_queue(Database& database, StoredLock& lock, const Reach& reach,
                        std::int64_t expected) {
  std::vector<TicketImage>& tickets = lock.image.tickets;
  const bool by_order = lock.due > reach.now;
  const bool whole = !by_order || reach.waiters > static_cast<std::size_t>(expected);
  const auto more = read_tickets(database, lock, whole ? kWhole : reach.waiters);
  if (!more) return more.error();
  if (*more) {
    auto read = read_more(database, lock, Sql::kLoadTicket, reach.named);
    if (read) read = read_more(database, lock, Sql::kLoadOddTickets, {});
    if (!read) return read;
    if (has_shrink(lock.image)) {
      tickets.clear();
      const auto rest = read_tickets(database, lock, kWhole);
      if (!rest) return rest.error();
    }
  }
  lock.left_out = expected - static_cast<std::int64_t>(tickets.size());
  if (lock.left_out < 0 || (lock.left_out > 0 && !*more)) {
    return bad_row(database, lock.image.name);
  }
  return {};
}

// A holder alone, whose token is the last one given.
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

Result<void> save_ticket(Database& database, const LockImage& lock, const TicketImage& ticket) {
  std::string owner;
  if (ticket.owner) encode_owner(ticket.owner, ticket.owner->wake, owner);
  const int flags = (ticket.held ? kHeldFlag : 0) | (ticket.system ? kSystemFlag : 0);
  const int code = database.get(Sql::kSaveTicket)
                       .bind(1, std::string_view(lock.name))
                       .bind(2, static_cast<std::int64_t>(ticket.order))
                       .bind(3, ticket.id)
                       .bind(4, std::int64_t{flags})
                       .bind(5, static_cast<std::int64_t>(ticket.mode.kind))
                       .bind(6, std::int64_t{ticket.mode.permits})
                       .bind(7, ticket.upgrade_of)
                       .bind(8, count_of(ticket.token))
                       .bind(9, static_cast<std::int64_t>(ticket.seq))
                       .bind(10, count_of(ticket.lease_end))
                       .bind(11, count_of(ticket.lease))
                       .bind(12, count_of(ticket.ttl))
                       .bind(13, count_of(ticket.waiter_ttl))
                       .bind(14, std::string_view(owner))
                       .run();
  if (code != SQLITE_OK) return database.error(code);
  return {};
}

Result<void> drop_ticket(Database& database, std::string_view name, const AcquisitionId& id) {
  const int code = database.get(Sql::kDropTicket).bind(1, name).bind(2, id).run();
  if (code != SQLITE_OK) return database.error(code);
  return {};
}

Result<void> save_row(Database& database, const StoredLock& before, const SavedLock& saved) {
  const LockImage& image = saved.after != nullptr ? *saved.after : before.image;
  const TicketImage* solo = solo_of(before, saved.after);
  std::int64_t token = count_of(before.image.last_token);
  for (const Effect& effect : *saved.effects) {
    if (effect.kind == EffectKind::kGranted) token = std::max(token, count_of(effect.token));
  }
  const auto tickets =
      saved.after == nullptr || solo != nullptr
          ? std::int64_t{0}
          : static_cast<std::int64_t>(saved.after->tickets.size()) + before.left_out;
  const std::int64_t due = before.left_out == 0 ? saved.due : std::min(saved.due, before.due);
  Statement& save = database.get(Sql::kSaveLock);
  save.bind(1, std::string_view(before.image.name))
      .bind(2, token)
      .bind(3, saved.at)
      .bind(4, due)
      .bind(5, tickets)
      .bind(6, static_cast<std::int64_t>(std::max<std::uint64_t>(image.next_order, 2)))
      .bind(7, static_cast<std::int64_t>(image.kind))
      .bind(8, std::int64_t{image.capacity})
      .bind(9, kFair);
  std::string owner;
  if (solo != nullptr) {
    if (solo->owner) encode_owner(solo->owner, solo->owner->wake, owner);
    save.bind(10, solo->id)
        .bind(11, static_cast<std::int64_t>(solo->mode.kind))
        .bind(12, std::int64_t{solo->mode.permits})
        .bind(13, static_cast<std::int64_t>(solo->seq))
        .bind(14, count_of(solo->lease_end))
        .bind(15, count_of(solo->lease))
        .bind(16, count_of(solo->ttl))
        .bind(17, count_of(solo->waiter_ttl))
        .bind(18, std::string_view(owner));
  } else {
    for (int column = 10; column <= 18; ++column) save.bind_null(column);
  }
  const int code = save.run();
  if (code != SQLITE_OK) return database.error(code);
  database.changed(before.image.name, saved.at);
  return {};
}

bool names_a_ticket(const Effect& effect) {
  switch (effect.kind) {
    case EffectKind::kQueued:
    case EffectKind::kGranted:
    case EffectKind::kExtended:
    case EffectKind::kReleased:
    case EffectKind::kCancelled:
    case EffectKind::kExpired:
    case EffectKind::kBroken:
    case EffectKind::kDropped:
    case EffectKind::kDowngraded:
    case EffectKind::kResized: return static_cast<bool>(effect.id);
    case EffectKind::kValueSet:
    case EffectKind::kTombstone:
    case EffectKind::kTombstoneDropped:
    case EffectKind::kForgotten: return false;
  }
  return false;
}

// N of a lock is part of every ticket's mode, but kept once, in the lock's row.
std::vector<AcquisitionId> touched_by(const StoredLock& before, const SavedLock& saved) {
  std::vector<AcquisitionId> touched;
  for (const Effect& effect : *saved.effects) {
    if (names_a_ticket(effect)) touched.push_back(effect.id);
  }
  const TicketImage* solo = solo_of(before, saved.after);
  // It was inline and is not any more, or the other way round.
  if (before.solo && (solo == nullptr || solo->id != before.solo)) touched.push_back(before.solo);
  if (solo != nullptr && solo->id != before.solo) touched.push_back(solo->id);
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  return touched;
}

}  // namespace

Result<StoredLock> read_lock_row(Database& database, Statement& row, const Reach& reach) {
  StoredLock lock;
  lock.exists = true;
  LockImage& image = lock.image;
  image.name = row.blob(17);
  image.last_token = token_of(row.integer(0));
  lock.at = row.integer(1);
  lock.due = row.integer(2);
  const std::int64_t tickets = row.integer(3);
  image.next_order = static_cast<std::uint64_t>(row.integer(4));
  const std::int64_t kind = row.integer(5);
  const std::int64_t capacity = row.integer(6);
  const std::int64_t policy = row.integer(7);
  const bool sound = (kind == 0 || kind == 2) && small(policy, 1) && capacity >= 1 &&
                     small(capacity, std::numeric_limits<std::uint32_t>::max());
  if (!sound) return bad_row(database, image.name);
  image.kind = static_cast<ModeKind>(kind);
  image.capacity = static_cast<std::uint32_t>(capacity);
  Result<void> read;
  if (!row.is_null(8)) {
    if (tickets != 0) return bad_row(database, image.name);
    read = read_solo(database, row, lock);
  } else if (tickets != 0) {
    read = read_queue(database, lock, reach, tickets);
  }
  if (!read) return read.error();
  return lock;
}

bool reached_enough(const StoredLock& before, const LockImage* after) {
  if (before.left_out == 0) return true;
  return after != nullptr &&
         std::any_of(after->tickets.begin(), after->tickets.end(), [&](const TicketImage& ticket) {
           return !ticket.held && !ticket.upgrade_of && ticket.order <= before.reached;
         });
}

Result<StoredLock> load_lock(Database& database, std::string_view name, const Reach& reach) {
  Statement& row = database.get(Sql::kLoadLock);
  const ResetAtEnd reset(row);
  const int code = row.bind(1, name).step();
  if (code == SQLITE_ROW) return read_lock_row(database, row, reach);
  if (code != SQLITE_DONE) return database.error(code);
  StoredLock lock;
  lock.image.name = name;
  return lock;
}

Result<void> save_lock(Database& database, const StoredLock& before, const SavedLock& saved) {
  const TicketImage* solo = solo_of(before, saved.after);
  for (const AcquisitionId& id : touched_by(before, saved)) {
    const TicketImage* ticket = find(saved.after, id);
    const bool row = ticket != nullptr && ticket != solo;
    auto done = row ? save_ticket(database, *saved.after, *ticket)
                    : drop_ticket(database, before.image.name, id);
    if (!done) return done;
  }
  for (const Effect& effect : *saved.effects) {
    int code = SQLITE_OK;
    if (effect.kind == EffectKind::kValueSet) {
      code = database.get(Sql::kSaveValue)
                 .bind(1, std::string_view(effect.name))
                 .bind(2, std::string_view(effect.value))
                 .bind(3, Database::wall_now())
                 .run();
    } else if (effect.kind == EffectKind::kBroken) {
      std::string by;
      encode_owner(effect.owner, {}, by);
      code = database.get(Sql::kSaveBroken)
                 .bind(1, std::string_view(effect.name))
                 .bind(2, count_of(effect.token))
                 .bind(3, std::string_view(by))
                 .bind(4, Database::wall_now())
                 .run();
    }
    if (code != SQLITE_OK) return database.error(code);
  }
  return save_row(database, before, saved);
}

std::optional<BreakInfo> Extras::trace() const {
  if (broken_token == 0) return std::nullopt;
  return BreakInfo{port::to_public(token_of(broken_token)), port::to_public(broken_by)};
}

Result<Extras> load_extras(Database& database, std::string_view name) {
  Statement& row = database.get(Sql::kLoadExtras);
  const ResetAtEnd reset(row);
  Extras extras;
  const int code = row.bind(1, name).step();
  if (code == SQLITE_DONE) return extras;
  if (code != SQLITE_ROW) return database.error(code);
  extras.value = row.blob(0);
  extras.broken_token = row.integer(1);
  auto by = decode_owner(row.blob(2));
  if (!by) return bad_row(database, name);
  extras.broken_by = std::move(*by);
  return extras;
}

}  // namespace holdfast::stores::sqlite
