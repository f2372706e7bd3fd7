#include "src/stores/sqlite/lock_rows.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "src/port/outcome.h"
#include "src/rows/owner_codec.h"
#include "src/stores/sqlite/schema.h"

namespace holdfast::stores::sqlite {
namespace {

using machine::AcquisitionId;
using machine::LockImage;
using machine::TicketImage;

Error bad_row(const Database& database, std::string_view name) {
  return database.corrupt("the rows of lock '" + std::string(name) + "' are invalid");
}

rows::TicketRow solo_of(Statement& row) {
  rows::TicketRow solo;
  solo.id = row.id(8);
  solo.mode = row.integer(9);
  solo.permits = row.integer(10);
  solo.seq = row.integer(11);
  solo.lease_end = row.integer(12);
  solo.lease = row.integer(13);
  solo.ttl = row.integer(14);
  solo.waiter_ttl = row.integer(15);
  solo.owner = row.blob(16);
  return solo;
}

Result<void> read_ticket(Database& database, Statement& row, StoredLock& lock) {
  rows::TicketRow ticket;
  ticket.order = row.integer(0);
  ticket.id = row.id(1);
  ticket.flags = row.integer(2);
  ticket.mode = row.integer(3);
  ticket.permits = row.integer(4);
  ticket.upgrade_of = row.id(5);
  ticket.token = row.integer(6);
  ticket.seq = row.integer(7);
  ticket.lease_end = row.integer(8);
  ticket.lease = row.integer(9);
  ticket.ttl = row.integer(10);
  ticket.waiter_ttl = row.integer(11);
  ticket.owner = row.blob(12);
  if (!rows::read_ticket(ticket, lock)) return bad_row(database, lock.image.name);
  return {};
}

// Reads in queue order, as far as that many waiters. True: there may be more.
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

// Adds the rows that `which` finds, except those that are there already.
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

Result<void> read_queue(Database& database, StoredLock& lock, const Reach& reach) {
  std::vector<TicketImage>& tickets = lock.image.tickets;
  const std::int64_t expected = lock.tickets;
  // A ticket that has ended may stand anywhere, so a queue with one is read whole.
  const bool by_order = lock.due > reach.now;
  const bool whole = !by_order || reach.waiters > static_cast<std::size_t>(expected);
  const auto more = read_tickets(database, lock, whole ? kWhole : reach.waiters);
  if (!more) return more.error();
  if (*more) {
    auto read = read_more(database, lock, Sql::kLoadTicket, reach.named);
    if (read) read = read_more(database, lock, Sql::kLoadOddTickets, {});
    if (!read) return read;
    // A shrink that takes effect drops waiters that ask for more than the new N, anywhere in the
    // queue.
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

Result<void> save_ticket(Database& database, std::string_view lock, const rows::TicketRow& ticket) {
  const int code = database.get(Sql::kSaveTicket)
                       .bind(1, lock)
                       .bind(2, ticket.order)
                       .bind(3, ticket.id)
                       .bind(4, ticket.flags)
                       .bind(5, ticket.mode)
                       .bind(6, ticket.permits)
                       .bind(7, ticket.upgrade_of)
                       .bind(8, ticket.token)
                       .bind(9, ticket.seq)
                       .bind(10, ticket.lease_end)
                       .bind(11, ticket.lease)
                       .bind(12, ticket.ttl)
                       .bind(13, ticket.waiter_ttl)
                       .bind(14, std::string_view(ticket.owner))
                       .run();
  if (code != SQLITE_OK) return database.error(code);
  return {};
}

Result<void> drop_ticket(Database& database, std::string_view name, const AcquisitionId& id) {
  const int code = database.get(Sql::kDropTicket).bind(1, name).bind(2, id).run();
  if (code != SQLITE_OK) return database.error(code);
  return {};
}

Result<void> save_row(Database& database, const rows::LockRow& row) {
  Statement& save = database.get(Sql::kSaveLock);
  save.bind(1, std::string_view(row.name))
      .bind(2, row.token)
      .bind(3, row.at)
      .bind(4, row.due)
      .bind(5, row.tickets)
      .bind(6, row.next_order)
      .bind(7, row.kind)
      .bind(8, row.capacity)
      .bind(9, kFair);
  if (row.solo) {
    save.bind(10, row.solo->id)
        .bind(11, row.solo->mode)
        .bind(12, row.solo->permits)
        .bind(13, row.solo->seq)
        .bind(14, row.solo->lease_end)
        .bind(15, row.solo->lease)
        .bind(16, row.solo->ttl)
        .bind(17, row.solo->waiter_ttl)
        .bind(18, std::string_view(row.solo->owner));
  } else {
    for (int column = 10; column <= 18; ++column) save.bind_null(column);
  }
  const int code = save.run();
  if (code != SQLITE_OK) return database.error(code);
  database.changed(row.name, row.at);
  return {};
}

Result<void> save_extras(Database& database, const rows::Changes& changes) {
  const std::string_view name = changes.lock.name;
  int code = SQLITE_OK;
  if (changes.value) {
    code = database.get(Sql::kSaveValue)
               .bind(1, name)
               .bind(2, std::string_view(*changes.value))
               .bind(3, Database::wall_now())
               .run();
  }
  if (code == SQLITE_OK && changes.broken) {
    code = database.get(Sql::kSaveBroken)
               .bind(1, name)
               .bind(2, changes.broken->token)
               .bind(3, std::string_view(changes.broken->by))
               .bind(4, Database::wall_now())
               .run();
  }
  if (code != SQLITE_OK) return database.error(code);
  return {};
}

}  // namespace

Result<StoredLock> read_lock_row(Database& database, Statement& row, const Reach& reach) {
  rows::LockRow columns;
  columns.token = row.integer(0);
  columns.at = row.integer(1);
  columns.due = row.integer(2);
  columns.tickets = row.integer(3);
  columns.next_order = row.integer(4);
  columns.kind = row.integer(5);
  columns.capacity = row.integer(6);
  const std::int64_t policy = row.integer(7);
  if (!row.is_null(8)) columns.solo = solo_of(row);
  columns.name = row.blob(17);
  StoredLock lock;
  if (policy < 0 || policy > 1 || !rows::read_lock(columns, lock)) {
    return bad_row(database, columns.name);
  }
  if (lock.tickets == 0) return lock;
  if (auto read = read_queue(database, lock, reach); !read) return read.error();
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

Result<void> save_lock(Database& database, const rows::Changes& changes) {
  const std::string_view name = changes.lock.name;
  for (const rows::TicketRow& ticket : changes.saved) {
    if (auto done = save_ticket(database, name, ticket); !done) return done;
  }
  for (const AcquisitionId& id : changes.dropped) {
    if (auto done = drop_ticket(database, name, id); !done) return done;
  }
  if (auto done = save_extras(database, changes); !done) return done;
  return save_row(database, changes.lock);
}

std::optional<BreakInfo> Extras::trace() const {
  if (broken_token == 0) return std::nullopt;
  return BreakInfo{port::to_public(rows::token_of(broken_token)), port::to_public(broken_by)};
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
  auto by = rows::decode_owner(row.blob(2));
  if (!by) return bad_row(database, name);
  extras.broken_by = std::move(*by);
  return extras;
}

}  // namespace holdfast::stores::sqlite
