#include "src/sql/renewals.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <utility>

#include "src/sql/requests.h"

namespace holdfast::sql {
namespace {

using port::AcquisitionState;
using port::AcquisitionStatus;

// Tickets of one statement: it keeps their locks' rows until it is committed.
constexpr std::size_t kPerStatement = 256;

AcquisitionState state_of(const Rows& rows, int row, const port::RenewItem& item) {
  AcquisitionState state;
  state.seq = item.seq;
  if (rows.number(row, 1) == rows::kHeldFlag) {
    state.status = AcquisitionStatus::kHeld;
    state.token = {0, static_cast<std::uint64_t>(rows.number(row, 2))};
    state.lease = item.ttl;
    return state;
  }
  state.status = AcquisitionStatus::kWaiting;
  state.lease = item.waiter_ttl;
  state.ahead = static_cast<std::uint32_t>(rows.number(row, 3));
  if (!rows.is_null(row, 4)) state.next_expiry = machine::Duration(rows.number(row, 4));
  return state;
}

}  // namespace

struct Renewals::Batch {
  std::vector<port::RenewItem> items;
  base::BootInstant deadline;
  port::Done<States> done;
  std::vector<std::optional<Result<AcquisitionState>>> states;
  std::atomic<std::size_t> left{0};

  // Each place is set once, by one thread; whoever sets the last one tells all.
  void set(std::size_t at, Result<AcquisitionState> state) {
    states[at] = std::move(state);
    if (left.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    States all;
    for (auto& one : states) all.push_back(*std::move(one));
    done(std::move(all));
  }
};

Renewals::Renewals(Link::Settings settings, Engine& engine)
    : engine_(engine), link_(std::move(settings), {}) {}

void Renewals::renew(std::vector<port::RenewItem> items, base::BootInstant deadline,
                     port::Done<States> done) {
  auto batch = std::make_shared<Batch>();
  batch->items = std::move(items);
  batch->deadline = deadline;
  batch->done = std::move(done);
  batch->states.resize(batch->items.size());
  batch->left = batch->items.size();
  if (batch->items.empty()) return batch->done(States());
  for (std::size_t from = 0; from < batch->items.size(); from += kPerStatement) {
    send(batch, from, std::min(from + kPerStatement, batch->items.size()));
  }
}

void Renewals::send(const std::shared_ptr<Batch>& batch, std::size_t from, std::size_t to) {
  std::vector<port::RenewItem> items;
  std::set<machine::AcquisitionId> known;
  for (std::size_t at = from; at < to; ++at) {
    items.push_back(batch->items[at]);
    // The second one of two about one ticket becomes a step.
    if (!known.insert(items.back().id).second) items.back().id = {};
  }
  auto question = std::make_shared<Question>();
  question->deadline = batch->deadline;
  question->answer = [this, batch, from, to](const RowsPtr& rows) { take(batch, from, to, *rows); };
  question->fail = [batch, from, to](const Error& why) {
    for (std::size_t at = from; at < to; ++at) batch->set(at, why);
  };
  engine_.ask(link_, engine_.dialect().renew(items, engine_.now()), std::move(question));
}

void Renewals::take(const std::shared_ptr<Batch>& batch, std::size_t from, std::size_t to,
                    const Rows& rows) {
  std::vector<bool> extended(to - from);
  for (int row = 0; row < rows.size(); ++row) {
    const auto at = static_cast<std::size_t>(rows.number(row, 0)) - 1;  // From 1 on.
    if (at >= extended.size() || extended[at]) continue;
    extended[at] = true;
  }
  // The steps first: the last place that is set tells all.
  for (std::size_t at = from; at < to; ++at) {
    if (!extended[at - from]) step(batch, at);
  }
  for (int row = 0; row < rows.size(); ++row) {
    const auto at = static_cast<std::size_t>(rows.number(row, 0)) - 1;
    if (at >= extended.size() || !extended[at]) continue;
    extended[at] = false;
    batch->set(from + at, state_of(rows, row, batch->items[from + at]));
  }
}

void Renewals::step(const std::shared_ptr<Batch>& batch, std::size_t at) {
  engine_.submit(renew_command(
      engine_, batch->items[at], batch->deadline,
      [batch, at](Result<AcquisitionState> state) { batch->set(at, std::move(state)); }));
}

}  // namespace holdfast::sql
