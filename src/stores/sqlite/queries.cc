// The operations that only read: what people see, and what a hint is about.
#include <algorithm>
#include <utility>

#include "src/port/outcome.h"
#include "src/stores/sqlite/operations.h"

namespace holdfast::stores::sqlite {

// Expired rows are left out: the next command on the lock will drop them.
Result<LockInfo> Operations::describe(const StoredLock& lock, std::int64_t now) {
  auto extras = load_extras(database_, lock.image.name);
  if (!extras) return extras.error();
  machine::LockImage image = lock.image;
  const machine::Instant at = instant_of(std::max(now, lock.at));
  std::erase_if(image.tickets, [&](const machine::TicketImage& ticket) {
    return !ticket.system && ticket.lease_end <= at;
  });
  return port::to_lock_info(image, at, extras->trace());
}

Result<std::optional<LockInfo>> Operations::inspect(const std::string& name) {
  std::optional<LockInfo> info;
  auto done = database_.snapshot([&]() -> Result<void> {
    const auto lock = load_lock(database_, name);
    if (!lock) return lock.error();
    if (!lock->exists) return {};
    auto described = describe(*lock, database_.now());
    if (!described) return described.error();
    info = std::move(*described);
    return {};
  });
  if (!done) return done.error();
  return info;
}

Result<std::vector<LockInfo>> Operations::list(const std::string& prefix, std::size_t limit) {
  std::vector<LockInfo> found;
  auto done = database_.snapshot([&]() -> Result<void> {
    const std::int64_t now = database_.now();
    Statement& rows = database_.get(Sql::kListLocks);
    const ResetAtEnd reset(rows);
    rows.bind(1, std::string_view(prefix)).bind(2, now);
    int code = SQLITE_DONE;
    while (found.size() < limit && (code = rows.step()) == SQLITE_ROW) {
      if (!rows.blob(17).starts_with(prefix)) return {};
      const auto lock = read_lock_row(database_, rows);
      if (!lock) return lock.error();
      auto described = describe(*lock, now);
      if (!described) return described.error();
      if (described->holders.empty() && described->waiters.empty()) continue;
      found.push_back(std::move(*described));
    }
    if (code != SQLITE_DONE && code != SQLITE_ROW) return database_.error(code);
    return {};
  });
  if (!done) return done.error();
  return found;
}

Result<std::string> Operations::get_value(const std::string& name) {
  auto extras = load_extras(database_, name);
  if (!extras) return extras.error();
  return std::move(extras->value);
}

std::optional<port::AcquisitionState> Operations::look(std::string_view name,
                                                       machine::AcquisitionId id) {
  Statement& held = database_.get(Sql::kLookHeld);
  const ResetAtEnd reset(held);
  if (held.bind(1, name).bind(2, id).step() != SQLITE_ROW || database_.file_moved()) {
    return std::nullopt;
  }
  port::AcquisitionState state;
  state.status = port::AcquisitionStatus::kHeld;
  state.token = {0, static_cast<std::uint64_t>(held.integer(0))};
  state.seq = static_cast<std::uint64_t>(held.integer(1));
  state.lease = machine::Duration(held.integer(2));
  return state;
}

}  // namespace holdfast::stores::sqlite
