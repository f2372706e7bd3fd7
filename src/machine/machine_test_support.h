// Shared by the machine's tests: a machine that is driven with short words, and its last effects.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/machine/lock_machine.h"

namespace holdfast::machine {

constexpr Instant at(std::int64_t us) { return Instant{Duration{us}}; }
constexpr AcquisitionId id(std::uint64_t low) { return {0xF00D, low}; }
constexpr Token token(std::uint64_t counter) { return {0, counter}; }

// Drives one machine; the clock is a number that the test moves. Every step is checked in full.
class Driver {
 public:
  explicit Driver(Limits limits = {}, Token floor = {}) : machine(floor, limits) {}

  Reply apply(Action action) {
    effects.clear();
    const Reply reply = machine.apply({now, std::move(action)}, effects);
    machine.check_invariants();
    return reply;
  }

  Reply acquire(std::uint64_t who, Mode mode = Mode::exclusive()) {
    return apply(request(who, mode));
  }
  // Number 1 holds, and the others up to `last` wait behind it in order.
  void line_up(std::uint64_t last) {
    for (std::uint64_t who = 1; who <= last; ++who) acquire(who);
  }
  Reply try_acquire(std::uint64_t who, Mode mode = Mode::exclusive()) {
    Acquire acquire = request(who, mode);
    acquire.may_wait = false;
    return apply(acquire);
  }
  Reply upgrade(std::uint64_t base, std::uint64_t who) {
    Acquire acquire = request(who, Mode::exclusive());
    acquire.upgrade_of = id(base);
    return apply(acquire);
  }
  Reply renew(std::uint64_t who, std::uint64_t seq) {
    return apply(
        Renew{.name = name, .id = id(who), .seq = seq, .ttl = ttl, .waiter_ttl = waiter_ttl});
  }
  Reply release(std::uint64_t who) {
    return apply(Release{.name = name, .id = id(who), .tombstone = tombstone});
  }
  Reply cancel(std::uint64_t who) {
    return apply(Cancel{.name = name, .id = id(who), .tombstone = tombstone});
  }
  Reply downgrade(std::uint64_t who) {
    return apply(Downgrade{.name = name, .id = id(who), .tombstone = tombstone});
  }
  Reply resize(std::uint64_t who, std::uint32_t capacity) {
    return apply(Resize{.name = name, .id = id(who), .capacity = capacity});
  }
  Reply tick(Instant when) {
    now = when;
    return apply(Tick{});
  }

  Acquire request(std::uint64_t who, Mode mode) const {
    return {.name = name, .id = id(who), .mode = mode, .ttl = ttl, .waiter_ttl = waiter_ttl};
  }

  // The ids that the last command did this to, in order.
  std::vector<std::uint64_t> did(EffectKind kind) const {
    std::vector<std::uint64_t> ids;
    for (const Effect& effect : effects) {
      if (effect.kind == kind) ids.push_back(effect.id.low);
    }
    return ids;
  }
  const Effect& effect(EffectKind kind) const {
    static const Effect none;
    const auto found = std::find_if(effects.begin(), effects.end(),
                                    [&](const Effect& effect) { return effect.kind == kind; });
    return found == effects.end() ? none : *found;
  }
  std::vector<std::uint64_t> tickets(bool held) const {
    std::vector<std::uint64_t> ids;
    const auto image = machine.inspect(name);
    if (!image) return ids;
    for (const TicketImage& ticket : image->tickets) {
      if (ticket.held == held) ids.push_back(ticket.id.low);
    }
    return ids;
  }
  std::vector<std::uint64_t> holders() const { return tickets(/*held=*/true); }
  std::vector<std::uint64_t> waiters() const { return tickets(/*held=*/false); }

  LockMachine machine;
  Effects effects;
  Instant now = at(0);
  std::string name = "orders/42";
  Duration ttl{100};
  Duration waiter_ttl{30};
  Duration tombstone{};
};

using Ids = std::vector<std::uint64_t>;

}  // namespace holdfast::machine
