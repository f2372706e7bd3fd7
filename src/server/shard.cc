#include "src/server/shard.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <variant>

#include "src/base/lock_name.h"
#include "src/port/outcome.h"

namespace holdfast::server {
namespace {

using machine::AcquisitionId;
using machine::Duration;
using machine::Effect;
using machine::EffectKind;
using machine::Instant;
using machine::Outcome;
using machine::Reply;

constexpr std::size_t kLongestClient = 64;
constexpr std::size_t kMostAtOnce = port::kMostAtOnce;
constexpr std::size_t kClosingBatch = std::size_t{256} << 10U;
constexpr std::size_t kUsersShare = 4;  // All users together may have so many times one's.

Duration usual_lease(const Effect& effect) {
  return effect.was_holder ? effect.ttl : effect.waiter_ttl;
}

}  // namespace

// A name as a member of a set of ids: two names with one hash count as one.
AcquisitionId Shard::place_of_name(std::string_view name) {
  return {0, machine::hash_of(name, 0)};
}

Shard::Shard(Recovered recovered, Instant boot, ServiceListener& listener,
             const ServiceOptions& options, Duration quiet)
    : listener_(listener),
      options_(options),
      machine_(std::move(recovered.machine)),
      axis_(machine_.now(), boot + quiet),
      now_(machine_.now()),
      marks_(std::move(recovered.rest.marks)),
      traces_(std::move(recovered.rest.traces)),
      kept_(std::move(recovered.rest.kept)),
      extended_(std::move(recovered.extended)),
      filling_(recovered.last_batch + 1, 1),
      holders_(recovered.holders),
      waiting_ids_(recovered.waiters.begin(), recovered.waiters.end()),
      ends_left_(options.ends_per_turn),
      quiet_until_(boot + quiet) {
  filling_.writer.add_floor(machine_.floor());
}

void Shard::submit(Instant boot, const Request& request, Done<Answer> done) {
  if (auto refused = refuse(boot, request)) return done(*std::move(refused));
  look_at_deadline(boot);
  advance(boot);
  const std::size_t before = filling_.writer.size();
  // Asked before the step, which makes the ticket unclean by its own change.
  const bool was_clean = clean(id_of(request.action));
  Answer answer = apply(request);
  charge(backlog_of(request.user, request.client), before);
  if (!may_leave(request, answer, was_clean)) {
    // A renewal that waits for room would keep all others of its client waiting (rule 56).
    const bool renews = as<machine::Renew>(request) != nullptr;
    if (renews && full_) return done(uncommitted(name_of(request.action)));
    return answer_when_committed(std::move(done), std::move(answer), /*fails_when_full=*/renews);
  }
  // A release gives up what it had: at worst the lock stays taken until its lease ends. A renewal
  // needs a proof that this server still leads, since the client counts on the lease from now on.
  if (!confirms_ || lets_go(request) || trusts_deadline_ || request.proven) {
    return done(std::move(answer));
  }
  filling_.confirms = true;
  filling_.hurries = filling_.hurries || request.hurried;
  filling_.waiting.push_back({filling_.told.size(), waiting_for(std::move(done), std::move(answer)),
                              /*fails_when_full=*/false, /*renewal=*/true});
}

void Shard::trust_deadline(Instant boot) {
  if (failed_ || committed_ < sure_after_ || boot >= leads_until_) return;
  trusts_deadline_ = true;
  const auto renewals = take_waiting(&Later::renewal);
  filling_.confirms = !filling_.waiting.empty();  // Reads of one lock go on waiting.
  for (const Waiting& each : renewals) each(nullptr);
}

std::optional<Error> Shard::refuse(Instant boot, const Request& request) {
  if (failed_) return Error(Errc::kUnavailable, failed_->message());
  const std::string_view name = name_of(request.action);
  if (name.size() > base::kLongestStoredName || request.client.size() > kLongestClient) {
    return Error(Errc::kInvalidArgument,
                 "a lock's name may have " + std::to_string(base::kLongestStoredName) +
                     " bytes, and a client's " + std::to_string(kLongestClient));
  }
  if (closing_) return Error(Errc::kUnavailable, "the server stops");
  if (boot < quiet_until_) {
    const auto left = std::chrono::ceil<std::chrono::seconds>(quiet_until_ - boot);
    return Error(Errc::kUnavailable,
                 "the journal is a restored copy and grants nothing for " +
                     std::to_string(left.count()) +
                     " s. If all clients were stopped, start the server with --clients-stopped");
  }
  if (lease_of(request) > kLongestLease) {
    return Error(Errc::kInvalidArgument, "a lease lasts 24 h at most");
  }
  auto without_room = refuse_for_room(request);
  // A renewal that lengthens nothing is not journaled, and refusing it would end a lease.
  const auto* renewal = as<machine::Renew>(request);
  if (without_room && renewal != nullptr && !lengthens(*renewal)) return std::nullopt;
  return without_room;
}

// Beyond what the journal has.
bool Shard::lengthens(const machine::Renew& renewal) const {
  const auto longer = long_leases_.find(renewal.id);
  const bool known = longer != long_leases_.end() &&
                     std::max(renewal.ttl, renewal.waiter_ttl) <= longer->second;
  return !known && machine_.lengthens(renewal);
}

std::optional<Error> Shard::refuse_for_room(const Request& request) {
  if (full_ && !lets_go(request)) {
    return Error(Errc::kUnavailable,
                 "the server's journal cannot be written for now: make room on its disk, and stop "
                 "programs that keep its database busy ('holdfast server status' names it)");
  }
  // The second half of the room is for clients that let go: their locks are of use to others.
  const std::size_t most = options_.user_backlog * (lets_go(request) ? 2 : 1);
  const Backlog& own = backlog_of(request.user, request.client);
  if (*own >= most || backlog_ >= most * kUsersShare) {
    return Error(Errc::kQueueFull, "too much is being committed: ask again in a moment");
  }
  return std::nullopt;
}

// An acquire that comes after its own end. Its ticket is gone, or it never had one.
std::optional<Reply> Shard::refuse_late(const Request& request) {
  const auto* acquire = as<machine::Acquire>(request);
  if (acquire == nullptr || request.issue == 0) return std::nullopt;
  const std::string name(acquire->name);
  if (!marks_.is_old(request.client, name, request.issue)) return std::nullopt;
  // The lease of its ticket may end just now, and then the ticket does not count.
  step(machine::Tick{acquire->name}, {});
  const auto lock = machine_.inspect(name);
  if (lock) {
    for (const machine::TicketImage& ticket : lock->tickets) {
      if (ticket.id == acquire->id) return std::nullopt;
    }
  }
  return Reply{.outcome = Outcome::kGone};
}

Answer Shard::apply(const Request& request) {
  if (const auto late = refuse_late(request)) return {*late, now_, {}, {}};
  const Reply reply = perform(request);
  if (asks_otherwise(request)) return complete(request, {.outcome = Outcome::kMismatch});
  note_mark(request, reply);
  return complete(request, reply);
}

Reply Shard::perform(const Request& request) {
  if (const auto* renewal = as<machine::Renew>(request)) return renew(*renewal);
  const AcquisitionId own = id_of(request.action);
  // Most requests are acquires, and a copy of an action costs as much as its step.
  if (!leaves_tombstone(request.action)) return step(request.action, own);
  return step(with_tombstone(request), own);
}

// Clients that number their requests draw an id for each acquisition, so these may have been
// downgraded.
bool Shard::asks_otherwise(const Request& request) const {
  const auto* acquire = as<machine::Acquire>(request);
  if (acquire == nullptr || request.issue != 0) return false;
  const auto mode = machine_.mode_of(acquire->name, acquire->id);
  return mode && is_another_mode(*mode, acquire->mode);
}

// A lease that the recovery extended may reach further than this renewal does, which then changes
// nothing. The lease still names a request from long ago, and a holder that counts from that gives
// up (rule 41). So the answer names this request and its own length. A holder's lease then names
// it, too, with the same end: a late Keep with a lower number must not cut what is promised.
Reply Shard::renew(const machine::Renew& renew) {
  Reply reply = step(renew, renew.id);
  const bool held = reply.outcome == Outcome::kHeld;
  if (!extended_.contains(renew.id) || (!held && reply.outcome != Outcome::kWaiting)) return reply;
  if (held || reply.seq >= renew.seq) extended_.erase(renew.id);
  const Duration length = held ? renew.ttl : renew.waiter_ttl;
  if (reply.seq >= renew.seq || length <= Duration::zero()) return reply;
  const Duration left = reply.lease_end - now_;
  if (length > left) return reply;
  // The journal's lease lasts as long, and no other lease ends in this step.
  machine::Effects unrecorded;
  const machine::Keep same_end{renew.name, renew.id, renew.seq, left, {}};
  if (held) machine_.apply({now_, same_end, 0}, unrecorded);
  reply.seq = renew.seq;
  reply.lease = length;
  return reply;
}

Reply Shard::step(const machine::Action& action, const AcquisitionId& own) {
  effects_.clear();
  const Reply reply = machine_.apply({now_, action, ends_left_}, effects_);
  // A step admits a bounded number. The rest belongs to the same batch.
  while (machine_.admits_more()) {
    machine_.apply({machine_.now(), machine::Tick{}, 0}, effects_);
  }
  // All changes go into the batch, except a renewal that the next recovery gives anyway.
  const bool renews = std::holds_alternative<machine::Renew>(action);
  for (Effect& effect : effects_) {
    if (effect.kind == EffectKind::kExpired && ends_left_ > 0) --ends_left_;
    const bool own_extension = renews && effect.kind == EffectKind::kExtended && effect.id == own;
    if (own_extension && effect.lease <= recorded_lease(effect)) continue;
    note(effect, own);
  }
  return reply;
}

// The recovery extends every lease by this much (rule 33).
Duration Shard::recorded_lease(const Effect& effect) const {
  const auto longer = long_leases_.find(effect.id);
  return longer != long_leases_.end() ? longer->second : usual_lease(effect);
}

void Shard::note_lease(const Effect& effect) {
  const bool sets = effect.kind == EffectKind::kQueued || effect.kind == EffectKind::kGranted ||
                    effect.kind == EffectKind::kExtended;
  if (sets && effect.lease > usual_lease(effect)) {
    long_leases_.insert_or_assign(effect.id, effect.lease);
  } else if (sets || machine::ends_ticket(effect.kind)) {
    long_leases_.erase(effect.id);
  }
}

void Shard::count(const Effect& effect) {
  if (effect.system) return;
  if (effect.kind == EffectKind::kQueued) waiting_ids_.insert(effect.id);
  if (effect.kind == EffectKind::kGranted) {
    waiting_ids_.erase(effect.id);
    ++holders_;
  }
  if (!machine::ends_ticket(effect.kind)) return;
  if (effect.was_holder) {
    holders_ -= holders_ > 0 ? 1 : 0;
  } else {
    waiting_ids_.erase(effect.id);
  }
}

// The effect is moved into the batch.
void Shard::note(Effect& effect, const AcquisitionId& own) {
  filling_.writer.add_effect(effect);
  note_lease(effect);
  if (effect.id) filling_.ids.insert(effect.id);
  filling_.names.insert(place_of_name(effect.name));
  if (effect.kind == EffectKind::kBroken) {
    traces_.leave(effect.name, {effect.token, effect.owner});
  }
  Change& told = filling_.told.emplace_back();
  told.at = now_;
  // The client of a ticket is told of its grant or its end, unless its own request did that: then
  // the answer tells it.
  const bool ends = machine::ends_ticket(effect.kind);
  const bool concerns = ends || effect.kind == EffectKind::kGranted;
  const auto route = concerns ? routes_.find(effect.id) : routes_.end();
  if (route != routes_.end() && effect.id != own) {
    told.push_to = route->second;
    filling_.pushes = true;
  }
  if (ends && route != routes_.end()) routes_.erase(route);
  if (ends) extended_.erase(effect.id);
  told.effect = std::move(effect);
}

void Shard::note_mark(const Request& request, const Reply& reply) {
  const bool entered = as<machine::Acquire>(request) != nullptr &&
                       (reply.outcome == Outcome::kHeld || reply.outcome == Outcome::kWaiting);
  const bool ended = lets_go(request) && reply.outcome != Outcome::kInvalid;
  if (request.issue == 0 || (!entered && !ended)) return;
  const std::string name(name_of(request.action));
  if (marks_.raise(request.client, name, request.issue)) {
    filling_.writer.add_mark(request.client, name, request.issue);
  }
}

Answer Shard::complete(const Request& request, const Reply& reply) {
  Answer answer{reply, now_, {}, {}};
  const std::string name(name_of(request.action));
  switch (reply.outcome) {
    case Outcome::kHeld:
    case Outcome::kWaiting:
      if (as<machine::Acquire>(request) != nullptr || as<machine::Renew>(request) != nullptr) {
        routes_.insert_or_assign(id_of(request.action), client(request.client));
      }
      break;
    case Outcome::kMismatch:
    case Outcome::kInvalid:
      if (const auto lock = machine_.inspect(name)) {
        answer.in_use = machine::Mode{lock->kind, 1, lock->capacity};
      }
      break;
    case Outcome::kGone:
      if (const BreakTrace* trace = traces_.find(name)) answer.last_break = *trace;
      break;
    default: break;
  }
  return answer;
}

// Whether the answer may leave before the commit of what this step, or an earlier one, has changed.
bool Shard::may_leave(const Request& request, const Answer& answer, bool was_clean) const {
  if (committed_ < sure_after_ || !was_clean) return false;
  const Outcome outcome = answer.reply.outcome;
  if (as<machine::Release>(request) != nullptr) return outcome == Outcome::kReleased;
  const auto* renewal = as<machine::Renew>(request);
  if (renewal == nullptr || !clean(renewal->id)) return false;
  // The place in a queue tells of others, so that must be committed as well.
  return outcome == Outcome::kHeld || (outcome == Outcome::kWaiting && clean(renewal->name));
}

bool Shard::clean(const AcquisitionId& id) const {
  return !filling_.ids.contains(id) && !(under_way_ && under_way_->ids.contains(id));
}

bool Shard::clean(std::string_view name) const {
  const AcquisitionId key = place_of_name(name);
  return !filling_.names.contains(key) && !(under_way_ && under_way_->names.contains(key));
}

void Shard::submit_all(Instant boot, const std::vector<Request>& requests,
                       Done<Service::AllOrNone> done) {
  std::unordered_set<std::string_view> names;
  for (const Request& request : requests) {
    const auto* acquire = as<machine::Acquire>(request);
    if (acquire == nullptr || acquire->upgrade_of) {
      return done(Error(Errc::kInvalidArgument,
                        "several locks at once: each needs an acquire, and none an upgrade"));
    }
    if (!names.insert(acquire->name).second) {
      return done(Error(Errc::kInvalidArgument, "several locks at once: '" +
                                                    std::string(acquire->name) +
                                                    "' is named twice: name it once"));
    }
    if (auto refused = refuse(boot, request)) return done(*std::move(refused));
  }
  if (requests.empty() || requests.size() > kMostAtOnce) {
    return done(Error(Errc::kInvalidArgument, "several locks at once: from 1 to " +
                                                  std::to_string(kMostAtOnce) + " of them"));
  }
  look_at_deadline(boot);
  advance(boot);
  const std::size_t before = filling_.writer.size();
  // First the shard foresees what each request would do, and then it applies all of them or none.
  // Nothing comes in between, because one thread does both.
  Service::AllOrNone all;
  for (std::size_t at = 0; at < requests.size() && !all.refused; ++at) {
    step(machine::Tick{name_of(requests[at].action)}, {});
    const auto late = refuse_late(requests[at]);
    const Outcome foreseen = late ? late->outcome
                             : asks_otherwise(requests[at])
                                 ? Outcome::kMismatch
                                 : machine_.foresee(*as<machine::Acquire>(requests[at]));
    if (foreseen == Outcome::kHeld) continue;
    all.refused = complete(requests[at], {.outcome = foreseen});
    all.refused_index = at;
  }
  if (!all.refused) {
    for (const Request& request : requests) all.granted.push_back(apply(request));
  }
  charge(backlog_of(requests.front().user, requests.front().client), before);
  answer_when_committed(std::move(done), std::move(all));
}

const Shard::ClientPtr& Shard::client(const ClientName& name) {
  if (last_client_ && last_client_->known && last_client_->name == name) return last_client_;
  if (clients_.size() >= next_sweep_) drop_idle_clients();
  ClientPtr& found = clients_[name];
  if (!found) {
    found = std::make_shared<Client>();
    found->name = name;
  }
  return last_client_ = found;
}

// A program may draw a new name for each of its requests. A client without tickets, and without
// bytes that are not committed, is made anew when it asks again.
void Shard::drop_idle_clients() {
  std::erase_if(clients_, [](const auto& entry) {
    return entry.second.use_count() == 1 && *entry.second->backlog == 0;
  });
  next_sweep_ = std::max(kManyClients, 2 * clients_.size());
}

void Shard::forget_client(const ClientName& client) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  found->second->known = false;
  clients_.erase(found);
}

const Shard::Backlog& Shard::backlog_of(const std::string& user, const ClientName& name) {
  if (user.empty()) return client(name)->backlog;
  Backlog& found = users_[user];
  if (!found) found = std::make_shared<std::size_t>(0);
  return found;
}

void Shard::charge(const Backlog& backlog, std::size_t bytes_before) {
  const std::size_t bytes = filling_.writer.size() - bytes_before;
  if (bytes == 0) return;
  *backlog += bytes;
  backlog_ += bytes;
  auto& all = filling_.bytes;
  if (all.empty() || all.back().first != backlog) all.emplace_back(backlog, 0);
  all.back().second += bytes;
}

void Shard::advance(Instant boot) {
  const bool driven = machine_.next_event().has_value() && !options_.now;
  now_ = std::max(machine_.now(), axis_.advance(boot, driven));
  if (options_.now) ends_left_ = options_.ends_per_turn;  // No tick comes.
}

void Shard::tick(Instant boot) {
  if (failed_) return;
  advance(boot);
  ends_left_ = options_.ends_per_turn;
  end_due({});
}

void Shard::end_due(std::string_view lock) {
  const auto next = machine_.next_event();
  if (next && *next <= now_) step(machine::Tick{lock}, {});
}

std::optional<Instant> Shard::next_tick() const {
  const auto next = machine_.next_event();
  if (failed_ || !next) return std::nullopt;
  return axis_.next_drive(*next);
}

void Shard::look_at_deadline(Instant boot) {
  if (boot >= leads_until_) doubt_time();
}

void Shard::doubt_time() { sure_after_ = filling_.turn; }

std::vector<Shard::Waiting> Shard::take_waiting(bool Later::*which) {
  std::vector<Waiting> taken;
  for (Batch* batch : {under_way_ ? &*under_way_ : nullptr, &filling_}) {
    if (batch == nullptr) continue;
    for (Later& each : batch->waiting) {
      if (each.*which) taken.push_back(std::move(each.answer));
    }
    std::erase_if(batch->waiting, [&](const Later& each) { return each.*which; });
  }
  return taken;
}

void Shard::wait_for_commit(Waiting waiting, bool fails_when_full) {
  if (wants_commit()) {
    filling_.waiting.push_back({filling_.told.size(), std::move(waiting), fails_when_full});
  } else if (under_way_) {
    under_way_->waiting.push_back({under_way_->told.size(), std::move(waiting), fails_when_full});
  } else {
    waiting(nullptr);
  }
}

bool Shard::wants_commit() const {
  return has_bytes() || filling_.confirms || sure_after_ == filling_.turn;
}

bool Shard::has_time() const {
  return filling_.waiting.empty() && !filling_.pushes && !filling_.confirms &&
         sure_after_ != filling_.turn;
}

std::optional<Shard::Outbound> Shard::take_batch() {
  if (failed_ || under_way_ || !wants_commit()) return std::nullopt;
  // A journal that cannot confirm by itself is given a batch of nothing.
  const bool writes = has_bytes() || !confirms_;
  Batch next(filling_.number + (writes ? 1 : 0), filling_.turn + 1);
  next.told.reserve(filling_.told.size());
  next.waiting.reserve(filling_.waiting.size());
  next.bytes.reserve(filling_.bytes.size());
  next.ids.reserve(filling_.ids.size());
  next.names.reserve(filling_.names.size());
  under_way_.emplace(std::exchange(filling_, std::move(next)));
  return Outbound{under_way_->number,
                  writes ? under_way_->writer.finish_unsummed(now_) : std::string()};
}

std::optional<Shard::Outbound> Shard::take_closing_batch(Instant boot) {
  if (failed_ || under_way_ || (closing_ && closing_->empty())) return std::nullopt;
  if (!closing_) {
    advance(boot);
    // The names are taken from the back, so that each one that was written can be dropped.
    closing_ = machine_.names("", SIZE_MAX);
    closing_->emplace_back();  // Below every name: the end.
    std::swap(closing_->front(), closing_->back());
  }
  machine::Effect lease;
  lease.kind = EffectKind::kExtended;
  while (!closing_->empty() && filling_.writer.size() < kClosingBatch) {
    lease.name = std::move(closing_->back());
    closing_->pop_back();
    if (closing_->empty()) {
      filling_.writer.add_closing();
      break;
    }
    const auto lock = machine_.inspect(lease.name);
    if (!lock) continue;
    for (const machine::TicketImage& ticket : lock->tickets) {
      if (ticket.system) continue;
      lease.id = ticket.id;
      lease.order = ticket.order;
      lease.lease_end = ticket.lease_end;
      lease.seq = ticket.seq;
      lease.lease = ticket.lease;
      filling_.writer.add_effect(lease);
    }
  }
  return take_batch();
}

void Shard::committed() {
  if (!under_way_) return;
  Batch batch = *std::move(under_way_);
  under_way_.reset();
  committed_ = batch.turn;
  trusts_deadline_ = false;
  for (const auto& [backlog, bytes] : batch.bytes) {
    *backlog -= bytes;
    backlog_ -= bytes;
  }
  deliver(std::move(batch));
}

void Shard::deliver(Batch batch) {
  std::size_t answered = 0;
  for (std::size_t at = 0;; ++at) {
    // An answer leaves after the changes that came before its request, and before those after it.
    while (answered < batch.waiting.size() && batch.waiting[answered].after <= at) {
      batch.waiting[answered++].answer(nullptr);
    }
    if (at == batch.told.size()) return;
    const Change& told = batch.told[at];
    count(told.effect);
    if (told.push_to && told.push_to->known) {
      port::Push push{port::Push::Kind::kHint, told.effect.id, {}};
      if (told.effect.kind == EffectKind::kGranted) {
        push.kind = port::Push::Kind::kGranted;
        push.state = port::held_state(told.effect);
      }
      listener_.on_push(told.push_to->name, push);
    }
    listener_.on_effect({batch.number, static_cast<std::uint32_t>(at)}, told.effect, told.at);
  }
}

void Shard::fail(const Error& reason, bool unknown) {
  if (failed_) return;
  failed_ = reason;
  // An answer may ask anew, so both lists are taken out before the first one is called.
  std::vector<Later> waiting = std::move(filling_.waiting);
  for (auto* reads : {&being_proven_, &unproven_}) {
    for (Waiting& each : std::exchange(*reads, {})) waiting.push_back({0, std::move(each)});
  }
  if (under_way_) {
    const Error outcome(unknown ? Errc::kOutcomeUnknown : Errc::kUnavailable, reason.message());
    Batch batch = *std::move(under_way_);
    under_way_.reset();
    for (const Later& each : batch.waiting) each.answer(&outcome);
  }
  // Applied in memory alone, and that is gone.
  const Error never(Errc::kUnavailable, reason.message());
  for (const Later& each : waiting) each.answer(&never);
}

}  // namespace holdfast::server
