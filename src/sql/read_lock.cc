#include "src/sql/read_lock.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "src/base/printable.h"
#include "src/port/outcome.h"
#include "src/rows/owner_codec.h"

namespace holdfast::sql {
namespace {

using machine::Duration;
using machine::Instant;

rows::TicketRow solo_of(const Rows& rows, int row) {
  rows::TicketRow solo;
  solo.id = rows.id(row, kSoloId);
  solo.mode = rows.number(row, kSoloMode);
  solo.permits = rows.number(row, kSoloPermits);
  solo.seq = rows.number(row, kSoloSeq);
  solo.lease_end = rows.number(row, kSoloEnd);
  solo.lease = rows.number(row, kSoloLease);
  solo.ttl = rows.number(row, kSoloTtl);
  solo.waiter_ttl = rows.number(row, kSoloWaiterTtl);
  solo.owner = rows.bytes(row, kSoloOwner);
  return solo;
}

rows::TicketRow ticket_of(const Rows& rows, int row) {
  rows::TicketRow ticket;
  ticket.order = rows.number(row, kOrder);
  ticket.id = rows.id(row, kId);
  ticket.flags = rows.number(row, kFlags);
  ticket.mode = rows.number(row, kMode);
  ticket.permits = rows.number(row, kPermits);
  ticket.upgrade_of = rows.id(row, kUpgradeOf);
  ticket.token = rows.number(row, kTicketToken);
  ticket.seq = rows.number(row, kSeq);
  ticket.lease_end = rows.number(row, kLeaseEnd);
  ticket.lease = rows.number(row, kLease);
  ticket.ttl = rows.number(row, kTtl);
  ticket.waiter_ttl = rows.number(row, kWaiterTtl);
  ticket.owner = rows.bytes(row, kOwner);
  return ticket;
}

void read_tombstones(std::string_view text, machine::LockImage& image) {
  while (text.size() > 32) {
    const std::string_view one = text.substr(0, text.find(' '));
    const std::int64_t until = std::strtoll(std::string(one.substr(32)).c_str(), nullptr, 10);
    image.tombstones.push_back({id_of(from_hex(one.substr(0, 32))), Instant(Duration(until))});
    text.remove_prefix(std::min(one.size() + 1, text.size()));
  }
  std::sort(image.tombstones.begin(), image.tombstones.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
}

bool read_row(const Rows& rows, int row, ReadLock& lock) {
  lock.now = rows.number(row, kNow);
  lock.stored.image.name = rows.bytes(row, kName);
  if (!rows.is_null(row, kBrokenToken)) {
    auto by = rows::decode_owner(rows.bytes(row, kBrokenBy));
    if (!by) return false;
    const auto token = static_cast<std::uint64_t>(rows.number(row, kBrokenToken));
    lock.trace = BreakInfo{port::to_public(machine::Token{0, token}), port::to_public(*by)};
  }
  lock.stored.image.value = rows.bytes(row, kValue);
  if (rows.is_null(row, kVersion)) return true;
  lock.version = rows.number(row, kVersion);
  rows::LockRow columns;
  columns.name = lock.stored.image.name;
  columns.token = rows.number(row, kToken);
  columns.at = rows.number(row, kAt);
  columns.due = rows.number(row, kDue);
  columns.tickets = rows.number(row, kTickets);
  columns.next_order = rows.number(row, kNextOrder);
  columns.kind = rows.number(row, kKind);
  columns.capacity = rows.number(row, kCapacity);
  if (!rows.is_null(row, kSoloId)) columns.solo = solo_of(rows, row);
  read_tombstones(rows.text(row, kTombstones), lock.stored.image);
  return rows::read_lock(columns, lock.stored);
}

}  // namespace

Result<std::vector<ReadLock>> read_locks(const Rows& rows, const std::string& address) {
  std::vector<ReadLock> locks;
  for (int row = 0; row < rows.size(); ++row) {
    const std::string name = rows.bytes(row, kName);
    bool sound = true;
    if (locks.empty() || locks.back().stored.image.name != name) {
      sound = read_row(rows, row, locks.emplace_back());
    }
    rows::StoredLock& lock = locks.back().stored;
    if (sound && !rows.is_null(row, kOrder)) {
      sound = rows::read_ticket(ticket_of(rows, row), lock);
    }
    const bool last = row + 1 == rows.size() || rows.bytes(row + 1, kName) != name;
    if (sound && last && !lock.solo) {
      sound = lock.tickets == static_cast<std::int64_t>(lock.image.tickets.size());
    }
    if (!sound) {
      return Error(Errc::kCorruptState,
                   address + ": the rows of lock '" + base::printable(name) +
                       "' make no sense: were they changed by hand? When nobody holds the lock, "
                       "delete its row in the table of locks");
    }
  }
  return locks;
}

port::AcquisitionState held_state(const Rows& rows, int row, int token_column) {
  port::AcquisitionState state;
  state.status = port::AcquisitionStatus::kHeld;
  state.token = {0, static_cast<std::uint64_t>(rows.number(row, token_column))};
  state.seq = static_cast<std::uint64_t>(rows.number(row, token_column + 1));
  state.lease = Duration(rows.number(row, token_column + 2));
  return state;
}

}  // namespace holdfast::sql
