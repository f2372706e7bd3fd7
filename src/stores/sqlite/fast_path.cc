// The machine's common cases, restated as one statement each. A statement runs alone
// (autocommit): it takes the write lock, looks and writes in one step, exactly as BEGIN IMMEDIATE,
// the statement and COMMIT would. Where its conditions do not hold, nothing was changed and the
// machine decides.
#include <optional>

#include "src/port/outcome.h"
#include "src/stores/sqlite/operations.h"
#include "src/rows/owner_codec.h"
#include "src/stores/sqlite/schema.h"

namespace holdfast::stores::sqlite {
namespace {

using machine::ModeKind;
using port::AcquisitionState;
using port::AcquisitionStatus;
using port::EndStatus;

// Longer leases may overflow: the machine handles them, because it saturates their ends.
constexpr std::int64_t kLongest = std::int64_t{1} << 50;

bool usual(machine::Duration length) { return length.count() > 0 && length.count() < kLongest; }

bool usual(const port::AcquireRequest& request) {
  if (request.name.empty() || !request.id || request.upgrade_of || !usual(request.ttl))
    return false;
  if (request.may_wait && request.waiter_ttl.count() <= 0) return false;
  switch (request.mode.kind) {
    case ModeKind::kExclusive:
    case ModeKind::kShared: return true;
    case ModeKind::kPermits:
      return request.mode.permits > 0 && request.mode.permits <= request.mode.capacity;
  }
  return false;
}

// Runs a statement that gives at most one row; the row is read by `read`. False: no row.
template <typename Read>
Result<bool> one_row(Database& database, Statement& statement, Read&& read) {
  const ResetAtEnd reset(statement);
  int code = statement.step();
  const bool found = code == SQLITE_ROW;
  if (found) {
    read(statement);
    code = statement.step();  // Commits, outside a transaction.
  }
  if (code != SQLITE_DONE) return database.error(code);
  return found;
}

AcquisitionState held(std::int64_t token, std::uint64_t seq, machine::Duration lease) {
  AcquisitionState state;
  state.status = AcquisitionStatus::kHeld;
  state.token = {0, static_cast<std::uint64_t>(token)};
  state.seq = seq;
  state.lease = lease;
  return state;
}

}  // namespace

std::optional<Result<AcquisitionState>> Operations::fast_acquire(
    const port::AcquireRequest& request, bool alone) {
  if (!fast_path_ || !usual(request)) return std::nullopt;
  const bool permits = request.mode.kind == ModeKind::kPermits;
  const std::int64_t now = database_.now();
  rows::encode_owner(request.owner, wake_, owner_bytes_);
  Statement& acquire = database_.get(Sql::kFastAcquire);
  acquire.bind(1, std::string_view(request.name))
      .bind(2, now)
      .bind(3, now + request.ttl.count())
      .bind(4, database_.tokens().floor)
      .bind(5, database_.tokens().ceiling)
      .bind(6, static_cast<std::int64_t>(permits ? ModeKind::kPermits : ModeKind::kExclusive))
      .bind(7, std::int64_t{permits ? request.mode.capacity : 1})
      .bind(8, kFair)
      .bind(9, request.id)
      .bind(10, static_cast<std::int64_t>(request.mode.kind))
      .bind(11, std::int64_t{permits ? request.mode.permits : 1})
      .bind(12, request.ttl.count())
      .bind(13, request.waiter_ttl.count())
      .bind(14, std::string_view(owner_bytes_));
  const int code = acquire.run();
  if (code != SQLITE_OK) {
    const Error failed = database_.error(code);
    // The disk was full, and folding the log has made room. The machine's transaction tries once
    // more.
    if (alone && database_.found_room()) return std::nullopt;
    return failed;
  }
  if (database_.changes() == 0) return std::nullopt;
  database_.changed(request.name, now);
  return held(database_.told(), 0, request.ttl);
}

std::optional<Result<EndStatus>> Operations::fast_release(const port::AcquisitionRequest& request,
                                                          bool alone) {
  if (!fast_path_ || !request.id) return std::nullopt;
  const std::int64_t now = database_.now();
  const int code = database_.get(Sql::kFastRelease)
                       .bind(1, std::string_view(request.name))
                       .bind(2, now)
                       .bind(3, request.id)
                       .run();
  if (code != SQLITE_OK) {
    const Error failed = database_.error(code);
    if (alone && database_.found_room()) return std::nullopt;
    return failed;
  }
  if (database_.changes() == 0) return std::nullopt;
  database_.changed(request.name, now);
  return EndStatus::kReleased;
}

std::optional<Result<AcquisitionState>> Operations::fast_renew(const port::RenewItem& item) {
  if (!fast_path_ || !item.id || !usual(item.ttl)) return std::nullopt;
  const std::int64_t now = database_.now();
  Statement& renew = database_.get(Sql::kFastRenew);
  renew.bind(1, std::string_view(item.name))
      .bind(2, now)
      .bind(3, item.id)
      .bind(4, static_cast<std::int64_t>(item.seq))
      .bind(5, now + item.ttl.count())
      .bind(6, item.ttl.count());
  if (const int code = renew.run(); code != SQLITE_OK) return database_.error(code);
  if (database_.changes() == 0) return std::nullopt;
  database_.changed(item.name, now);
  return held(database_.told(), item.seq, item.ttl);
}

std::optional<Result<AcquisitionState>> Operations::beat(const port::RenewItem& item) {
  if (!fast_path_ || !item.id || !usual(item.ttl) || !usual(item.waiter_ttl)) return std::nullopt;
  const std::int64_t now = database_.now();
  Statement& beat = database_.get(Sql::kBeat);
  beat.bind(1, std::string_view(item.name))
      .bind(2, now)
      .bind(3, item.id)
      .bind(4, static_cast<std::int64_t>(item.seq))
      .bind(5, now + item.ttl.count())
      .bind(6, item.ttl.count())
      .bind(7, now + item.waiter_ttl.count())
      .bind(8, item.waiter_ttl.count());
  bool holds = false;
  std::int64_t token = 0;
  std::int64_t order = 0;
  const auto found = one_row(database_, beat, [&](Statement& row) {
    holds = row.integer(0) == 1;
    token = row.integer(1);
    order = row.integer(2);
  });
  if (!found) return found.error();
  if (!*found) return std::nullopt;
  database_.changed(item.name, now);
  if (holds) return held(token, item.seq, item.ttl);
  return waiting_state(item, order, now);
}

Result<std::uint32_t> Operations::ahead_of(std::string_view name, std::int64_t order) {
  std::uint32_t count = 0;
  Statement& ahead = database_.get(Sql::kAhead);
  ahead.bind(1, name).bind(2, order);
  const auto found = one_row(database_, ahead, [&](Statement& row) {
    count = static_cast<std::uint32_t>(row.integer(0));
  });
  if (!found) return found.error();
  return count;
}

Result<AcquisitionState> Operations::waiting_state(const port::RenewItem& item, std::int64_t order,
                                                   std::int64_t now) {
  AcquisitionState state;
  state.status = AcquisitionStatus::kWaiting;
  state.seq = item.seq;
  state.lease = item.waiter_ttl;
  const auto ahead = ahead_of(item.name, order);
  if (!ahead) return ahead.error();
  state.ahead = *ahead;
  Statement& expiry = database_.get(Sql::kNextExpiry);
  expiry.bind(1, std::string_view(item.name));
  const auto found = one_row(database_, expiry, [&](Statement& row) {
    if (!row.is_null(0)) state.next_expiry = machine::Duration(row.integer(0) - now);
  });
  if (!found) return found.error();
  return state;
}

}  // namespace holdfast::stores::sqlite
