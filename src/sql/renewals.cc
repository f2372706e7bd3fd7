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

// Tickets of one statement, which keeps their locks' rows until it is committed; and the length of
// their names, which a text has up to six times: some servers take no text of more than 16 MiB.
constexpr std::size_t kPerStatement = 4096;
constexpr std::size_t kMostNames = 1U << 20U;

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
  Places holders;
  Places waiters;
  for (std::size_t at = 0; at < batch->items.size(); ++at) {
    (batch->items[at].token != machine::Token{} ? holders : waiters).push_back(at);
  }
  send_all(batch, holders);
  if (!waiters.empty()) send_calm(batch, std::move(waiters));
}

// A heartbeat of its own would raise the version of its lock, and so take away what a step of this
// client on that lock has read: with many waiters no step would ever be written. There the
// heartbeat goes with the next step.
void Renewals::send_calm(const std::shared_ptr<Batch>& batch, Places waiters) {
  auto sorting = std::make_shared<Task>();
  sorting->fail = [batch, waiters](const Error& why) {
    for (const std::size_t at : waiters) batch->set(at, why);
  };
  sorting->run = [this, batch, waiters] {
    Places calm;
    for (const std::size_t at : waiters) {
      engine_.is_busy(batch->items[at].name) ? step(batch, at) : calm.push_back(at);
    }
    send_all(batch, calm);
  };
  engine_.post(std::move(sorting));
}

void Renewals::send_all(const std::shared_ptr<Batch>& batch, const Places& places) {
  Places together;
  std::size_t names = 0;
  for (const std::size_t at : places) {
    const std::size_t name = batch->items[at].name.size();
    if (together.size() == kPerStatement || (names + name > kMostNames && !together.empty())) {
      send(batch, std::exchange(together, {}));
      names = 0;
    }
    together.push_back(at);
    names += name;
  }
  if (!together.empty()) send(batch, std::move(together));
}

void Renewals::send(const std::shared_ptr<Batch>& batch, const Places& places) {
  if (has_own_link_) return send_over(link_, batch, places);
  try_own_link(batch->deadline);
  send_over(engine_.link(), batch, places);
}

// Otherwise nothing would ask for that connection any more.
void Renewals::try_own_link(base::BootInstant deadline) {
  auto question = std::make_shared<Question>();
  question->deadline = deadline;
  question->answer = [this](const RowsPtr&) { has_own_link_ = true; };
  question->fail = [](const Error&) {};
  engine_.ask(link_, {"SELECT 1"}, std::move(question));
}

void Renewals::send_over(Link& link, const std::shared_ptr<Batch>& batch, const Places& places) {
  std::vector<port::RenewItem> items;
  std::set<machine::AcquisitionId> known;
  for (const std::size_t at : places) {
    items.push_back(batch->items[at]);
    // The second one of two about one ticket becomes a step.
    if (!known.insert(items.back().id).second) items.back().id = {};
  }
  auto question = std::make_shared<Question>();
  question->deadline = batch->deadline;
  question->fail = [this, own = &link == &link_, batch, places](const Error& why) {
    // Nothing was sent, since there is no connection.
    if (own && why.code() == Errc::kUnavailable && !link_.connected()) {
      has_own_link_ = false;
      if (base::BootClock::now() < batch->deadline) {
        return send_over(engine_.link(), batch, places);
      }
    }
    for (const std::size_t at : places) batch->set(at, why);
  };
  question->answer = [this, batch, places](const RowsPtr& rows) { take(batch, places, *rows); };
  engine_.ask(link, engine_.dialect().renew(items, engine_.now()), std::move(question));
}

void Renewals::take(const std::shared_ptr<Batch>& batch, const Places& places, const Rows& rows) {
  std::vector<bool> extended(places.size());
  for (int row = 0; row < rows.size(); ++row) {
    const auto at = static_cast<std::size_t>(rows.number(row, 0)) - 1;  // From 1 on.
    if (at >= extended.size() || extended[at]) continue;
    extended[at] = true;
  }
  // The steps first: the last place that is set tells all.
  for (std::size_t at = 0; at < places.size(); ++at) {
    if (!extended[at]) step(batch, places[at]);
  }
  for (int row = 0; row < rows.size(); ++row) {
    const auto at = static_cast<std::size_t>(rows.number(row, 0)) - 1;
    if (at >= extended.size() || !extended[at]) continue;
    extended[at] = false;
    batch->set(places[at], state_of(rows, row, batch->items[places[at]]));
  }
}

void Renewals::step(const std::shared_ptr<Batch>& batch, std::size_t at) {
  engine_.submit(renew_command(
      engine_, batch->items[at], batch->deadline,
      [batch, at](Result<AcquisitionState> state) { batch->set(at, std::move(state)); }));
}

}  // namespace holdfast::sql
