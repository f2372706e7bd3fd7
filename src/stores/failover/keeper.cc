#include "src/stores/failover/keeper.h"

#include <algorithm>
#include <utility>

#include "holdfast/detail/renewal_schedule.h"
#include "src/base/clock_bound.h"
#include "src/base/random.h"
#include "src/base/thread.h"

namespace holdfast::stores::failover {
namespace {

using base::BootClock;
using base::BootInstant;
using detail::RenewalSchedule;
using port::AcquisitionState;
using port::AcquisitionStatus;
using std::chrono::milliseconds;

constexpr milliseconds kRequest{2000};
constexpr milliseconds kOpen{2000};

std::uint32_t unix_seconds() {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::seconds>(base::wall_now().time_since_epoch())
          .count());
}

// Twice the rate error that a lock counts with: an authority decides for all locks of a store.
constexpr base::ClockBound kBound{.rate_error_ppm = 20'000};

std::string random_id() {
  const base::Random128 random = base::random_128();
  return base::to_hex(random.high, random.low);
}

std::string too_long(milliseconds authority, milliseconds longest) {
  return "its authority lease is of " + std::to_string(longest.count()) +
         " ms, and this client's of " + std::to_string(authority.count()) +
         " ms: give all clients the same authority=, or lengthen it by 'holdfast failover switch' "
         "with the longer one";
}

SwitchFsm::Terms terms_of(const Keeper::Settings& settings, std::size_t stores) {
  SwitchFsm::Terms terms;
  terms.first.chain = settings.identity;
  terms.first.authority = random_id();
  terms.first.authority_ms = static_cast<std::uint32_t>(settings.authority.count());
  terms.first.longest_ms = terms.first.authority_ms;
  terms.stores = static_cast<std::uint32_t>(stores);
  terms.tick = RenewalSchedule(settings.authority).lead_every();
  terms.patience = settings.patience;
  terms.settled = settings.settled;
  return terms;
}

}  // namespace

Keeper::Keeper(std::vector<Link> chain, const port::StoreContext& context, Settings settings)
    : chain_(std::move(chain)),
      context_(context),
      settings_(std::move(settings)),
      prefix_((context.name_space.empty() ? "" : context.name_space + "/") + "../failover/"),
      fsm_(terms_of(settings_, chain_.size())),
      stores_(chain_.size()) {
  context_.schema = nullptr;
}

Keeper::~Keeper() {
  if (!closed_) close(BootClock::now());
}

Result<void> Keeper::connect() {
  port::StoreContext context = context_;
  context.listener = &deaf_;
  context.owner += "/authority";
  auto anchor = chain_.back().factory(chain_.back().url, context);
  if (!anchor) {
    return Error(anchor.error().code(), "the last store of the chain, which keeps its record: " +
                                            anchor.error().message());
  }
  anchor_ = *std::move(anchor);
  const Guarantees given = anchor_->guarantees();
  if (!given.values || !given.shared || !given.fenced) {
    return Error(Errc::kUnsupported,
                 "the last store of a chain needs values, shared locks and fencing tokens; " +
                     given.store + " lacks one of them");
  }
  anchor_ttl_ = std::max<port::Duration>(settings_.authority, given.min_ttl);
  return {};
}

void Keeper::start() {
  thread_ = base::start_thread("holdfast-chain", [this] { run(); });
}

Result<std::optional<ChainRecord>> Keeper::look() {
  const SwitchFsm::Answer answer = read();
  if (answer.read) return answer.record;
  return Error(Errc::kUnavailable, "the record of the fail-over chain: " + last_error_);
}

Result<void> Keeper::try_out(std::uint32_t place, const std::optional<ChainRecord>& record) {
  ChainRecord target = record.value_or(ChainRecord());
  target.active = place;
  const Stamp stamp = look_at(target);
  if (stamp == Stamp::kUnreachable) return Error(Errc::kUnavailable, last_error_);
  if (stamp != Stamp::kForeign || !record) return {};
  return Error(Errc::kUnavailable, "another chain uses " + shown(place));
}

// --- The thread.

void Keeper::run() {
  while (true) {
    {
      const base::LocalLock lock(mutex_);
      if (end_) break;
      wake_ = false;
      if (ordered_) fsm_.order(*std::exchange(ordered_, std::nullopt));
    }
    const SwitchFsm::Query question = fsm_.next(unix_seconds());
    rest_until(question.not_before);
    {
      const base::LocalLock lock(mutex_);
      if (end_) break;
    }
    keep_alive(/*now=*/false);
    const SwitchFsm::Answer answer = ask(question);
    fsm_.on_answer(BootClock::now(), answer);
    publish();
  }
  drop_authority();
  give_back(claim_);
  give_back(drain_);
}

// Ends early when it is woken, but for a wait that a drain needs.
void Keeper::rest_until(BootInstant until) {
  const bool needed = fsm_.phase() == SwitchFsm::Phase::kWait;
  while (true) {
    const BootInstant now = BootClock::now();
    if (now >= until) return;
    {
      const base::LocalLock lock(mutex_);
      if (end_ || (!needed && (wake_ || ordered_))) return;
      woken_.wait_for(mutex_, std::min<std::chrono::nanoseconds>(
                                  until - now, RenewalSchedule(settings_.authority).lead_look()));
    }
    keep_alive(/*now=*/false);
  }
}

SwitchFsm::Answer Keeper::ask(const SwitchFsm::Query& question) {
  using Phase = SwitchFsm::Phase;
  SwitchFsm::Answer answer;
  switch (question.phase) {
    case Phase::kFollow:
    case Phase::kConfirm:
    case Phase::kReread: return read();
    case Phase::kShare:
      if (share_.epoch != question.epoch) drop_authority();
      answer.yes = share_.sure() || take(share_, name_of("e" + std::to_string(question.epoch)),
                                         machine::Mode::shared());
      share_.epoch = question.epoch;
      return answer;
    case Phase::kServe: return serve(question);
    case Phase::kClaim:
      answer.yes = take(claim_, name_of("record"), machine::Mode::exclusive());
      return answer;
    case Phase::kMark:
      drop_authority();  // A switcher does not stand in its own way.
      answer.yes = write(question.record);
      return answer;
    case Phase::kActivate: answer.yes = write(question.record); return answer;
    case Phase::kDrain:
      answer.yes =
          question.epoch == 0 || drain_.sure() ||
          take(drain_, name_of("e" + std::to_string(question.epoch)), machine::Mode::exclusive());
      return answer;
    case Phase::kWait: answer.yes = claim_.sure(); return answer;
    case Phase::kStamp: answer.yes = put_stamp(question.record); return answer;
    case Phase::kUnclaim:
      give_back(drain_);
      give_back(claim_);
      return answer;
  }
  return answer;
}

SwitchFsm::Answer Keeper::read() {
  SwitchFsm::Answer answer;
  const auto text = await<std::string>([&](port::Done<std::string> done) {
    anchor_->get_value(name_of("record"), soon(), std::move(done));
  });
  if (!text) {
    last_error_ = text.error().message();
    return answer;
  }
  if (text->empty()) {
    answer.yes = answer.read = true;
    return answer;
  }
  auto record = read_record(*text);
  if (record && record->chain != settings_.identity) {
    record = Error(Errc::kStoreInUse,
                   "clients with another list of stores use this chain: give all the same list");
  }
  if (record && record->active >= chain_.size()) {
    record = Error(Errc::kCorruptState, "the record names a store beyond the chain");
  }
  if (!record) {
    last_error_ = record.error().message();
    return answer;
  }
  answer.yes = answer.read = true;
  answer.record = *std::move(record);
  return answer;
}

SwitchFsm::Answer Keeper::serve(const SwitchFsm::Query& question) {
  keep_alive(/*now=*/true);
  SwitchFsm::Answer answer = read();
  answer.yes = share_.sure() && share_.epoch == question.epoch;
  if (!answer.yes || !answer.read || answer.record != question.record) return answer;
  answer.stamp = look_at(question.record);
  const std::string name = name_of("ok" + std::to_string(question.epoch));
  if (answer.stamp != Stamp::kUnreachable && question.reachable) {
    if (!report_.sure()) static_cast<void>(take(report_, name, machine::Mode::shared()));
    return answer;
  }
  give_back(report_);
  const auto info = await<std::optional<LockInfo>>([&](port::Done<std::optional<LockInfo>> done) {
    anchor_->inspect(name, soon(), std::move(done));
  });
  // Whoever cannot be asked may reach it.
  answer.others_reach_it = !info || (*info && !(*info)->holders.empty());
  return answer;
}

Stamp Keeper::look_at(const ChainRecord& record) {
  const Opened* const link = opened(record.active);
  if (link == nullptr) return Stamp::kUnreachable;
  const auto text = await<std::string>([&](port::Done<std::string> done) {
    link->store->get_value(stamp_name(), soon(), std::move(done));
  });
  if (!text) {
    last_error_ = text.error().message();
    return Stamp::kUnreachable;
  }
  if (*text == stamp_of(record)) return Stamp::kOurs;
  return text->empty() || is_ours(*text, record) ? Stamp::kMissing : Stamp::kForeign;
}

bool Keeper::write(const ChainRecord& record) {
  if (!claim_.sure()) return false;
  const auto written = await<bool>([&](port::Done<bool> done) {
    anchor_->set_value({claim_.name, claim_.id, soon(), claim_.issue, false}, to_text(record),
                       std::move(done));
  });
  if (!written) last_error_ = written.error().message();
  return written.has_value();
}

// A stamp of another chain is left alone.
bool Keeper::put_stamp(const ChainRecord& record) {
  const Opened* const link = opened(record.active);
  if (link == nullptr || !claim_.sure()) return false;
  port::Store& store = *link->store;
  port::AcquireRequest request;
  const base::Random128 random = base::random_128();
  request.name = stamp_name();
  request.id = {random.high, random.low};
  request.issue = ++last_issue_;
  request.mode = machine::Mode::exclusive();
  request.may_wait = false;
  request.ttl = request.waiter_ttl = std::max<port::Duration>(settings_.authority, link->least_ttl);
  request.deadline = soon();
  const auto taken = await<AcquisitionState>(
      [&](port::Done<AcquisitionState> done) { store.acquire(request, std::move(done)); });
  const port::AcquisitionRequest holder{request.name, request.id, soon(), request.issue, false};
  bool good = taken && taken->status == AcquisitionStatus::kHeld;
  if (good) {
    const auto text = await<std::string>([&](port::Done<std::string> done) {
      store.get_value(request.name, soon(), std::move(done));
    });
    good = text && (text->empty() || is_ours(*text, record));
    if (text && !good) last_error_ = "another chain uses " + shown(record.active);
  }
  if (good) {
    good = await<bool>([&](port::Done<bool> done) {
             store.set_value(holder, stamp_of(record), std::move(done));
           }).has_value();
  }
  static_cast<void>(await<port::EndStatus>(
      [&](port::Done<port::EndStatus> done) { store.cancel(holder, std::move(done)); }));
  return good;
}

void Keeper::drop_authority() {
  {
    const base::LocalLock lock(mutex_);
    use_.reset();
  }
  if (share_.name.empty()) return;
  context_.loop->post(settings_.changed);
  give_back(report_);
  give_back(share_);
}

void Keeper::publish() {
  const auto& seen = fsm_.record();
  const bool other = share_.epoch != 0 &&
                     (!seen || seen->epoch != share_.epoch || seen->draining || fsm_.foreign());
  if (other) drop_authority();
  // An authority lease may be given back before its end. Then whoever drains waits for the longest
  // lease of the record, and no holder's lease may be longer.
  const milliseconds longest(seen ? seen->longest_ms : 0);
  const bool fits = settings_.authority <= longest;
  const Opened* const link =
      fsm_.serving() && !fsm_.foreign() && fits ? opened(fsm_.record()->active) : nullptr;
  bool changed = false;
  {
    const base::LocalLock lock(mutex_);
    record_ = seen;
    reaches_ = fsm_.reaches_store();
    why_not_ = fsm_.foreign() ? "another chain uses " + chain_[seen->active].url.redacted()
               : seen && seen->draining ? "it is being switched"
               : seen && !fits          ? too_long(settings_.authority, longest)
               : last_error_.empty()    ? "no authority lease was given yet"
                                        : last_error_;
    if (link != nullptr) {
      changed = !use_;
      use_ = Use{share_.epoch,    seen->active,    link->store.get(), link->least_ttl,
                 link->forgetful, stamp_of(*seen), share_.sure_until};
    } else if (use_ && !share_.sure()) {
      use_.reset();
      changed = true;
    } else if (use_) {
      use_->sure_until = share_.sure_until;
    }
  }
  if (changed) context_.loop->post(settings_.changed);
}

// --- Locks in the last store.

bool Keeper::take(Held& held, const std::string& name, const machine::Mode& mode) {
  give_back(held);
  const base::Random128 random = base::random_128();
  held.name = name;
  held.id = {random.high, random.low};
  held.issue = ++last_issue_;
  held.mode = mode;
  held.sent = BootClock::now();
  port::AcquireRequest request;
  request.name = name;
  request.id = held.id;
  request.issue = held.issue;
  request.mode = mode;
  request.may_wait = false;
  request.ttl = request.waiter_ttl = anchor_ttl_;
  request.deadline = soon();
  machine::OwnerInfo owner;
  owner.owner = context_.owner;
  request.owner = std::make_shared<const machine::OwnerInfo>(std::move(owner));
  const auto taken = await<AcquisitionState>(
      [&](port::Done<AcquisitionState> done) { anchor_->acquire(request, std::move(done)); });
  if (taken && taken->status == AcquisitionStatus::kHeld) {
    held.sure_until = kBound.safe_deadline(held.sent, std::min(taken->lease, anchor_ttl_));
    if (held.sure()) return true;
  }
  if (!taken) last_error_ = taken.error().message();
  give_back(held);
  return false;
}

void Keeper::give_back(Held& held) {
  if (held.name.empty()) return;
  const port::AcquisitionRequest request{held.name, held.id, soon(), held.issue, false};
  static_cast<void>(await<port::EndStatus>(
      [&](port::Done<port::EndStatus> done) { anchor_->cancel(request, std::move(done)); }));
  held = {};
}

// Renews what is held. `now`: also what was renewed a moment ago.
void Keeper::keep_alive(bool now) {
  std::vector<Held*> renewed;
  std::vector<port::RenewItem> items;
  const BootInstant at = BootClock::now();
  for (Held* held : {&share_, &report_, &claim_, &drain_}) {
    if (held->name.empty()) continue;
    if (!now && at - held->sent < RenewalSchedule(settings_.authority).lead_every()) continue;
    renewed.push_back(held);
    items.push_back({held->name, held->id, ++held->seq, anchor_ttl_, anchor_ttl_, {}});
  }
  if (items.empty()) return;
  const auto states = await<std::vector<Result<AcquisitionState>>>(
      [&](port::Done<std::vector<Result<AcquisitionState>>> done) {
        anchor_->renew(items, soon(), std::move(done));
      });
  for (std::size_t i = 0; i < renewed.size(); ++i) {
    Held& held = *renewed[i];
    const auto state = states ? (*states)[i] : Result<AcquisitionState>(states.error());
    held.sent = at;
    if (!state) {
      last_error_ = state.error().message();
    } else if (state->status != AcquisitionStatus::kHeld) {
      if (&held == &share_) drop_authority();
      held = {};
    } else if (state->seq == held.seq) {
      const BootInstant end = kBound.safe_deadline(at, std::min(state->lease, anchor_ttl_));
      held.sure_until = std::max(held.sure_until, end);
    }
  }
  const base::LocalLock lock(mutex_);
  if (use_ && share_.epoch == use_->epoch) use_->sure_until = share_.sure_until;
}

// --- Stores, and questions to them.

Keeper::Opened* Keeper::opened(std::uint32_t place) {
  Opened& link = stores_[place];
  if (link.store) return &link;
  port::StoreContext context = context_;
  context.listener = settings_.listener_of(place);
  context.open_by =
      BootClock::now() + std::min<std::chrono::nanoseconds>(
                             kOpen, RenewalSchedule(settings_.authority).request_time());
  auto store = chain_[place].factory(chain_[place].url, context);
  if (!store) {
    last_error_ = store.error().message();
    return nullptr;
  }
  const Guarantees given = (*store)->guarantees();
  link.least_ttl = given.min_ttl;
  link.forgetful = !given.survives_restart || !given.survives_failover;
  link.store = *std::move(store);
  return &link;
}

BootInstant Keeper::soon() const {
  return BootClock::now() + std::min<std::chrono::nanoseconds>(
                                kRequest, RenewalSchedule(settings_.authority).lead_every());
}

template <typename T>
Result<T> Keeper::await(const std::function<void(port::Done<T>)>& start) {
  struct Awaited {
    base::LocalMutex mutex;
    base::LocalCondition condition;
    std::optional<Result<T>> result;
  };
  const auto waiting = std::make_shared<Awaited>();
  start([waiting](Result<T> result) {
    const base::LocalLock lock(waiting->mutex);
    waiting->result = std::move(result);
    waiting->condition.notify_all();
  });
  const BootInstant until = soon() + milliseconds(500);
  const base::LocalLock lock(waiting->mutex);
  while (!waiting->result) {
    const BootInstant now = BootClock::now();
    if (now >= until) return Error(Errc::kOutcomeUnknown, "the store has not answered in time");
    waiting->condition.wait_for(waiting->mutex, until - now);
  }
  return *std::move(waiting->result);
}

// --- For other threads.

std::optional<Keeper::Use> Keeper::use() const {
  const base::LocalLock lock(mutex_);
  if (!use_ || BootClock::now() >= use_->sure_until) return std::nullopt;
  return use_;
}

Error Keeper::why_not() const {
  const base::LocalLock lock(mutex_);
  return {Errc::kUnavailable, "the fail-over chain cannot be used now: " + why_not_};
}

std::optional<ChainRecord> Keeper::record() const {
  const base::LocalLock lock(mutex_);
  return record_;
}

bool Keeper::reaches_store() const {
  const base::LocalLock lock(mutex_);
  return reaches_;
}

void Keeper::order(std::uint32_t place) {
  const base::LocalLock lock(mutex_);
  ordered_ = place;
  woken_.notify_all();
}

void Keeper::wake() {
  const base::LocalLock lock(mutex_);
  wake_ = true;
  woken_.notify_all();
}

void Keeper::close(BootInstant deadline) {
  closed_ = true;
  {
    const base::LocalLock lock(mutex_);
    end_ = true;
    use_.reset();
    woken_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  for (Opened& link : stores_) {
    if (link.store) link.store->close(std::max(deadline, BootClock::now()));
  }
  if (anchor_) anchor_->close(std::max(deadline, BootClock::now()));
}

void Keeper::abandon_after_fork() noexcept {
  for (Opened& link : stores_) {
    if (link.store) link.store->abandon_after_fork();
  }
  if (anchor_) anchor_->abandon_after_fork();
}

}  // namespace holdfast::stores::failover
