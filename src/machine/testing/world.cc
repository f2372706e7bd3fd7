#include "src/machine/testing/world.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <variant>

#include "src/machine/testing/admission_list.h"

namespace holdfast::machine::testing {
namespace {

// Each name has its habits, which only a few commands disregard.
struct Habit {
  std::string_view name;
  ModeKind kind;
  std::uint32_t capacity;
};
constexpr std::array<Habit, 3> kHabits{{
    {"mutex", ModeKind::kExclusive, 1},
    {"shared/mutex", ModeKind::kShared, 1},
    {"a semaphore whose name is long", ModeKind::kPermits, 4},
}};

constexpr Duration kTtl{60};
constexpr Duration kWaiterTtl{25};
constexpr Duration kTombstone{80};

constexpr Token kFloor{3, 1000};

}  // namespace

Limits World::limits_from(Dice& dice) {
  constexpr std::array<std::uint32_t, 4> kSteps{1, 2, 3, 128};
  constexpr std::array<std::uint32_t, 4> kTombstones{0, 2, 65'536, 65'536};
  Limits limits;
  limits.admissions_per_step = dice.pick(kSteps);
  limits.max_tombstones = dice.pick(kTombstones);
  limits.max_value = 8;
  if (dice.one_in(4)) limits.token_ceiling = kFloor.counter + dice.below(8);
  if (dice.one_in(2)) limits.expiry_tombstone = kTombstone;
  limits.hash_seed = dice.draw();
  return limits;
}

World::World(std::uint64_t seed)
    : dice_(seed),
      limits_(limits_from(dice_)),
      machine_(kFloor, limits_),
      model_(kFloor, limits_),
      observer_(kFloor) {}

std::string World::run(int steps) {
  for (step_ = 0; step_ < steps && failure_.empty(); ++step_) step();
  return failure_;
}

void World::step() {
  if (dice_.one_in(3)) pass_time();
  if (dice_.one_in(40)) restore();
  if (limits_.token_ceiling != UINT64_MAX && dice_.one_in(10)) {
    limits_.token_ceiling += dice_.below(6);
    machine_.set_token_ceiling(limits_.token_ceiling);
    model_.set_token_ceiling(limits_.token_ceiling);
  }
  switch (dice_.below(8)) {
    case 0:
    case 1: newcomer(); break;
    case 2:
    case 3:
    case 4: speak(); break;
    case 5: meddle(); break;
    default: break;
  }
  deliver();
}

void World::pass_time() {
  const auto next = machine_.next_event();
  if (next && dice_.one_in(2)) {
    now_ = std::max(now_, dice_.one_in(3) ? *next - Duration{1} : *next);
    submit({Tick{}, {}});
  } else {
    now_ += Duration{static_cast<std::int64_t>(dice_.below(dice_.one_in(8) ? 90 : 12))};
  }
}

void World::newcomer() {
  const Habit& habit = dice_.pick(kHabits);
  Acquisition one{.id = {dice_.one_in(2) ? 7U : dice_.below(3), next_id_++}, .name = habit.name};
  one.mode = Mode{habit.kind, 1, habit.capacity};
  if (habit.kind == ModeKind::kShared && dice_.one_in(3)) one.mode = Mode::exclusive();
  if (habit.kind == ModeKind::kPermits) {
    // The operators' resizing is known to most.
    const LockImage* lock = observer_.lock(std::string(habit.name));
    if (lock != nullptr && !dice_.one_in(8)) one.mode.capacity = lock->capacity;
    one.mode.permits = static_cast<std::uint32_t>(1 + dice_.below(3));
  }
  if (dice_.one_in(60)) one.mode = Mode::of_permits(1, 2);
  if (dice_.one_in(60)) one.mode.permits = static_cast<std::uint32_t>(dice_.below(2));
  if (one.mode.kind == ModeKind::kExclusive && dice_.one_in(2) && !acquisitions_.empty()) {
    const Acquisition& other = dice_.pick(acquisitions_);
    if (other.name == one.name && !other.closed) one.upgrade_of = other.id;
  }
  one.sent.push_back(now_);
  Acquire acquire{.name = one.name, .id = one.id, .mode = one.mode};
  acquire.may_wait = !dice_.one_in(5);
  acquire.ttl = dice_.one_in(60) ? Duration{} : kTtl;
  acquire.waiter_ttl = dice_.one_in(10) ? kTtl + kTtl : kWaiterTtl;
  acquire.max_waiters = dice_.one_in(4) ? 3 : 0;
  acquire.upgrade_of = one.upgrade_of;
  network_.push_back({acquire, one.id});
  acquisitions_.push_back(std::move(one));
  if (acquisitions_.size() > 14) acquisitions_.erase(acquisitions_.begin());
}

// A client goes on: mostly with heartbeats, now and then with its end.
void World::speak() {
  if (acquisitions_.empty()) return;
  Acquisition& one = dice_.pick(acquisitions_);
  const Duration tombstone = dice_.one_in(4) ? Duration{} : kTombstone;
  switch (dice_.below(9)) {
    case 0:
      one.closed = true;
      network_.push_back({Release{one.name, one.id, tombstone}, one.id});
      break;
    case 1:
      one.closed = true;
      network_.push_back({Cancel{one.name, one.id, tombstone}, one.id});
      break;
    case 2: {
      if (one.upgrade_of) one.closed = true;
      network_.push_back({Downgrade{one.name, one.id, tombstone}, one.id});
      break;
    }
    case 3: {
      const std::string value(dice_.below(10), 'v');
      network_.push_back({SetValue{one.name, one.id, value}, one.id});
      break;
    }
    default: {
      const Duration ttl = dice_.one_in(6) ? kWaiterTtl : kTtl;
      const Duration waiter_ttl = dice_.one_in(40) ? Duration{} : kWaiterTtl;
      network_.push_back({Renew{one.name, one.id, one.sent.size(), ttl, waiter_ttl}, one.id});
      one.sent.push_back(now_);
    }
  }
}

// Operators, and requests that no client of ours would make.
void World::meddle() {
  const Habit& habit = dice_.pick(kHabits);
  switch (dice_.below(4)) {
    case 0: submit({Break{habit.name, some_token(habit.name), kTombstone, {}}, {}}); break;
    case 1: {
      const auto capacity = static_cast<std::uint32_t>(dice_.below(6));
      submit({Resize{habit.name, {9, 1 + dice_.below(5)}, capacity}, {}});
      break;
    }
    case 2: {
      const AcquisitionId id =
          dice_.one_in(2) ? AcquisitionId{9, 1 + dice_.below(5)} : AcquisitionId{0, dice_.below(2)};
      submit({Cancel{dice_.one_in(9) ? "" : habit.name, id, kTombstone}, {}});
      break;
    }
    default: submit({Tick{}, {}}); break;
  }
}

// One message arrives: new or once more, in time or late; some are lost.
void World::deliver() {
  if (network_.empty() || dice_.one_in(6)) {
    if (!past_.empty() && dice_.one_in(2)) submit(dice_.pick(past_));
    return;
  }
  const std::size_t which = dice_.one_in(3) ? dice_.below(network_.size()) : 0;
  const Message message = network_[which];
  network_.erase(network_.begin() + static_cast<std::ptrdiff_t>(which));
  if (dice_.one_in(12)) return;
  past_.push_back(message);
  if (past_.size() > 24) past_.erase(past_.begin());
  submit(message);
}

void World::submit(const Message& message) {
  if (!failure_.empty()) return;
  const bool tick = std::holds_alternative<Tick>(message.action);
  const auto due = machine_.next_event();
  const bool expected = due && *due <= now_;
  // A caller whose clock is behind the machine's changes nothing.
  const bool behind = machine_.now() == now_ && dice_.one_in(5);
  const Instant when = behind ? now_ - Duration{5} : now_;
  const Reply reply = apply({when, message.action});
  if (tick && expected == effects_.empty()) fail("a tick and next_event");
  if (Acquisition* one = acquisition(message.id);
      one != nullptr && reply.outcome == Outcome::kHeld) {
    if (reply.lease_end < one->sent[reply.seq] + reply.lease) fail("a lease ends before its time");
    if (!dice_.one_in(4)) believe(one->id, reply.seq, reply.lease);
  }
  if (machine_.next_event() == machine_.now()) return;  // Others are being admitted.
  const bool any_grant = std::any_of(effects_.begin(), effects_.end(), [](const Effect& effect) {
    return effect.kind == EffectKind::kGranted;
  });
  // Once it was admitted, it may do what was refused to it while it waited.
  const bool of_holders = !std::holds_alternative<Acquire>(message.action) &&
                          !std::holds_alternative<Release>(message.action) &&
                          !std::holds_alternative<Cancel>(message.action);
  if (any_grant && of_holders) return;
  if (reply.outcome == Outcome::kTooLarge) return;  // N fell in this step, and is free again.
  const Reply again = apply({when, message.action});
  // (Beyond the limit a tombstone may come and go again.)
  const bool capped = limits_.max_tombstones < 65'536;
  if (!effects_.empty() && !(capped && effects_.front().kind == EffectKind::kTombstone)) {
    fail("the same command again changed something");
  }
  if (reply.outcome == Outcome::kHeld && again != reply) fail("the same acquire, another grant");
}

Reply World::apply(const Command& command) {
  effects_.clear();
  command_ = command.action.index();
  const Reply reply = machine_.apply(command, effects_);
  machine_.check_invariants();
  observer_.pass(machine_.now());
  for (const Effect& effect : effects_) see(effect);
  compare(reply, model_.apply(command));
  check_state();
  return reply;
}

void World::compare(const Reply& reply, const Reply& expected) {
  if (reply != expected) {
    fail("outcome " + std::to_string(static_cast<int>(reply.outcome)) + ", the model says " +
         std::to_string(static_cast<int>(expected.outcome)) + ", or other terms");
  }
}

void World::see(const Effect& effect) {
  if (effect.kind == EffectKind::kGranted) {
    Token& last = last_tokens_[effect.name];
    if (effect.token <= last) fail("a token does not grow");
    last = effect.token;
    const LockImage* lock = observer_.lock(effect.name);
    if (lock != nullptr && !effect.upgrade_of) {
      for (const TicketImage& ticket : lock->tickets) {
        if (!ticket.held && ticket.order < effect.order) fail("a fair queue is overtaken");
      }
    }
    if (dice_.one_in(2)) believe(effect.id, effect.seq, effect.lease);
  }
  if (effect.kind == EffectKind::kBroken || effect.kind == EffectKind::kReleased) {
    if (Acquisition* one = acquisition(effect.id)) one->believed_until = Instant{};
  }
  if (!observer_.see(effect)) {
    fail("effect " + std::to_string(static_cast<int>(effect.kind)) + " makes no sense");
  }
}

void World::check_state() {
  const MachineImage state = machine_.snapshot();
  if (state != observer_.image()) fail("effects do not tell the state");
  if (state != model_.snapshot()) fail("the model has another state");
  for (const LockImage& lock : state.locks) check_lock(lock);
  check_beliefs();
}

void World::check_lock(const LockImage& lock) {
  std::vector<Standing> queue;
  std::uint64_t exclusive = 0;
  std::uint64_t shared = 0;
  std::uint64_t permits = 0;
  bool upgraded = false;
  for (const TicketImage& ticket : lock.tickets) {
    queue.push_back({ticket.mode, ticket.held, static_cast<bool>(ticket.upgrade_of)});
    if (!ticket.system && ticket.lease_end <= machine_.now()) fail("a lease is over and stands");
    if (!ticket.held) continue;
    if (ticket.upgrade_of) upgraded = true;
    if (ticket.mode.kind == ModeKind::kExclusive) ++exclusive;
    if (ticket.mode.kind == ModeKind::kShared) ++shared;
    if (ticket.mode.kind == ModeKind::kPermits) permits += ticket.mode.permits;
  }
  if (exclusive > 1 || (exclusive == 1 && shared != (upgraded ? 1U : 0U))) fail("two hold");
  if (permits > 0 && (exclusive + shared > 0 || permits > lock.capacity)) fail("too many permits");

  const bool admitting = machine_.next_event() == machine_.now();
  const bool no_token =
      std::max(lock.last_token.counter, machine_.floor().counter) >= limits_.token_ceiling;
  if (!admitting && !no_token && next_admitted(queue, lock.capacity)) {
    fail("somebody waits who could hold");
  }
}

void World::check_beliefs() {
  for (Acquisition& one : acquisitions_) {
    // Once the deadline has passed a client answers "lost", whatever arrives later.
    if (one.believed_until != Instant{} && !believes(one)) one.closed = true;
    if (!believes(one)) continue;
    const TicketImage* ticket =
        EffectObserver::ticket(observer_.lock(std::string(one.name)), one.id);
    if (ticket != nullptr && ticket->held) continue;
    fail("client " + std::to_string(one.id.low) + " believes in a lock that it lost");
  }
}

// An upgrade lasts no longer than the shared ticket under it.
bool World::believes(const Acquisition& one) {
  if (one.closed || one.believed_until <= machine_.now()) return false;
  if (!one.upgrade_of) return true;
  const Acquisition* base = acquisition(one.upgrade_of);
  return base != nullptr && believes(*base);
}

// The client's arithmetic: the deadline counts from the send of the request that is named.
void World::believe(AcquisitionId id, std::uint64_t seq, Duration lease) {
  Acquisition* one = acquisition(id);
  if (one == nullptr || one->closed) return;
  one->believed_until = std::max(one->believed_until, one->sent[seq] + lease);
}

void World::restore() {
  const MachineImage image = machine_.snapshot();
  limits_.hash_seed = dice_.draw();
  auto restored = LockMachine::restore(image, limits_);
  if (!restored || restored->snapshot() != image) return fail("a snapshot is not restored");
  if (restored->next_event() != machine_.next_event()) fail("a restored machine sleeps longer");
  machine_ = std::move(*restored);
}

World::Acquisition* World::acquisition(AcquisitionId id) {
  const auto found = std::find_if(acquisitions_.begin(), acquisitions_.end(),
                                  [&](const Acquisition& one) { return one.id == id; });
  return found == acquisitions_.end() ? nullptr : &*found;
}

Token World::some_token(std::string_view name) {
  const LockImage* lock = observer_.lock(std::string(name));
  if (lock == nullptr || lock->tickets.empty() || dice_.one_in(3)) return kFloor;
  return dice_.pick(lock->tickets).token;
}

// The first failure counts. The command by its place in Action, the effects by kind and id.
void World::fail(const std::string& what) {
  if (!failure_.empty()) return;
  failure_ = "step " + std::to_string(step_) + ": " + what + "; command " +
             std::to_string(command_) + " at " +
             std::to_string(machine_.now().time_since_epoch().count()) + ", effects";
  for (const Effect& effect : effects_) {
    failure_ += " " + std::to_string(static_cast<int>(effect.kind)) + "(" + effect.name + " " +
                std::to_string(effect.id.low) + ")";
  }
}

}  // namespace holdfast::machine::testing
