#include "src/stores/sqlite/operations.h"

#include <algorithm>
#include <utility>

#include "src/machine/lock_machine.h"
#include "src/port/outcome.h"

namespace holdfast::stores::sqlite {
namespace {

using machine::AcquisitionId;
using machine::Effect;
using machine::EffectKind;
using machine::Instant;
using machine::LockImage;
using machine::TicketImage;
using port::EndStatus;
using port::TicketRequest;
using port::TicketState;

constexpr std::size_t kBatch = 128;
// More than one step of the machine can give.
constexpr std::int64_t kTokensPerStep = 256;

Instant instant_of(std::int64_t microseconds) { return Instant(machine::Duration(microseconds)); }

AcquisitionId id_of(const machine::Action& action) {
  return std::visit(
      [](const auto& command) -> AcquisitionId {
        if constexpr (requires { command.id; }) {
          return command.id;
        } else {
          return {};
        }
      },
      action);
}

const std::string& wake_before(const StoredLock& before, const Effect& effect) {
  static const std::string none;
  for (const TicketImage& ticket : before.image.tickets) {
    if (ticket.id == effect.id) return ticket.owner ? ticket.owner->wake : none;
  }
  return effect.owner ? effect.owner->wake : none;
}

bool concerns_its_owner(EffectKind kind) {
  switch (kind) {
    case EffectKind::kGranted:
    case EffectKind::kReleased:
    case EffectKind::kCancelled:
    case EffectKind::kExpired:
    case EffectKind::kBroken:
    case EffectKind::kDropped:
    case EffectKind::kDowngraded:
    case EffectKind::kNotified: return true;
    case EffectKind::kQueued:
    case EffectKind::kExtended:
    case EffectKind::kResized:
    case EffectKind::kValueSet:
    case EffectKind::kTombstone:
    case EffectKind::kTombstoneDropped:
    case EffectKind::kForgotten: return false;
  }
  return false;
}

}  // namespace

Result<Operations::Applied> Operations::apply(std::string_view name, machine::Action action,
                                              Notices& notices) {
  const auto tokens = database_.load_tokens();
  if (!tokens) return tokens.error();
  auto loaded = load_lock(database_, name);
  if (!loaded) return loaded.error();
  const StoredLock& before = *loaded;
  const auto last = static_cast<std::int64_t>(before.image.last_token.counter);
  if (tokens->ceiling - std::max(last, tokens->floor) < kTokensPerStep) {
    return database_.want_tokens();
  }

  machine::Limits limits;
  limits.token_ceiling = static_cast<std::uint64_t>(tokens->ceiling);
  machine::LockMachine machine({0, static_cast<std::uint64_t>(tokens->floor)}, limits);
  if (before.exists && !machine.restore_lock(before.image)) {
    return database_.corrupt("the tickets of lock '" + std::string(name) +
                             "' contradict each other");
  }
  Applied applied;
  applied.at = instant_of(std::max(before.at, database_.now()));
  const AcquisitionId own = id_of(action);
  machine::Effects effects;
  applied.reply = machine.apply({applied.at, std::move(action)}, effects);
  applied.after = machine.inspect(name);
  const bool changed = std::any_of(effects.begin(), effects.end(), [](const Effect& effect) {
    return effect.kind != EffectKind::kForgotten && effect.kind != EffectKind::kNotified;
  });
  if (changed) {
    SavedLock saved;
    saved.at = applied.at.time_since_epoch().count();
    saved.due = machine.next_event().value_or(Instant::max()).time_since_epoch().count();
    saved.after = applied.after ? &*applied.after : nullptr;
    saved.effects = &effects;
    if (auto done = save_lock(database_, before, saved); !done) return done.error();
  }
  collect(before, effects, own, notices);
  return applied;
}

void Operations::collect(const StoredLock& before, const machine::Effects& effects,
                         AcquisitionId own, Notices& notices) const {
  for (const Effect& effect : effects) {
    if (!concerns_its_owner(effect.kind)) continue;
    const std::string& wake = wake_before(before, effect);
    // The caller knows from its reply, but an acquisition may have passed to another process.
    if (effect.id == own && (wake == wake_ || effect.kind == EffectKind::kGranted)) continue;
    Notice notice{effect.id, wake, std::nullopt};
    if (effect.kind == EffectKind::kGranted) notice.granted = port::held_state(effect);
    notices.push_back(std::move(notice));
  }
}

Result<Operations::Applied> Operations::apply_alone(std::string_view name,
                                                    const machine::Action& action,
                                                    Notices& notices) {
  Result<Applied> applied = Error(Errc::kUnavailable, "not begun");
  const std::size_t told_before = notices.size();
  auto done = database_.transaction([&]() -> Result<void> {
    notices.resize(told_before);
    applied = apply(name, action, notices);
    if (!applied) return applied.error();
    return {};
  });
  if (done) return applied;
  notices.resize(told_before);
  return done.error();
}

machine::OwnerPtr Operations::with_wake(const machine::OwnerPtr& owner) const {
  machine::OwnerInfo info = owner ? *owner : machine::OwnerInfo{};
  info.wake = wake_;
  return std::make_shared<const machine::OwnerInfo>(std::move(info));
}

Result<TicketState> Operations::acquire(const port::AcquireRequest& request, Notices& notices) {
  if (auto fast = fast_acquire(request)) return still_here(request, std::move(*fast));
  machine::Acquire command = port::to_command(request);
  command.owner = with_wake(request.owner);
  const auto applied = apply_alone(request.name, command, notices);
  if (!applied) return applied.error();
  const LockImage* current = applied->after ? &*applied->after : nullptr;
  return still_here(request,
                    port::to_acquire_result(applied->reply, request, current, applied->at));
}

// A grant in a file that nobody else can find is none. The commit came before this look, so that a
// file which is here now was here then.
Result<TicketState> Operations::still_here(const port::AcquireRequest& request,
                                           Result<TicketState> result) {
  if (!result || !database_.moved()) return result;
  Notices nobody;
  const auto undone = release({request.name, request.id, request.deadline}, nobody);
  if (!undone) {
    return Error(Errc::kOutcomeUnknown, "sqlite store " + database_.path() +
                                            ": the file was moved or replaced during the request");
  }
  return Error(Errc::kUnavailable,
               "sqlite store " + database_.path() + ": the file was moved or replaced");
}

Result<EndStatus> Operations::release(const TicketRequest& request, Notices& notices) {
  if (auto fast = fast_release(request)) return std::move(*fast);
  const auto applied =
      apply_alone(request.name, machine::Release{request.name, request.id, {}}, notices);
  if (!applied) return applied.error();
  return port::to_end_status(applied->reply, request.name);
}

Result<EndStatus> Operations::cancel(const TicketRequest& request, Notices& notices) {
  const auto applied =
      apply_alone(request.name, machine::Cancel{request.name, request.id, {}}, notices);
  if (!applied) return applied.error();
  return port::to_end_status(applied->reply, request.name);
}

Result<TicketState> Operations::downgrade(const TicketRequest& request, Notices& notices) {
  const auto applied =
      apply_alone(request.name, machine::Downgrade{request.name, request.id, {}}, notices);
  if (!applied) return applied.error();
  const LockImage* current = applied->after ? &*applied->after : nullptr;
  return port::to_downgrade_result(applied->reply, request.name, request.id, current);
}

Result<bool> Operations::break_lock(const port::BreakRequest& request, Notices& notices) {
  const auto applied = apply_alone(
      request.name, machine::Break{request.name, request.token, {}, request.by}, notices);
  if (!applied) return applied.error();
  return port::to_done(applied->reply, request.name);
}

Result<bool> Operations::set_value(const TicketRequest& request, std::string value,
                                   Notices& notices) {
  const auto applied = apply_alone(
      request.name, machine::SetValue{request.name, request.id, std::move(value)}, notices);
  if (!applied) return applied.error();
  return port::to_done(applied->reply, request.name);
}

Result<bool> Operations::resize(const TicketRequest& request, std::uint32_t capacity,
                                Notices& notices) {
  const auto applied =
      apply_alone(request.name, machine::Resize{request.name, request.id, capacity}, notices);
  if (!applied) return applied.error();
  return port::to_done(applied->reply, request.name);
}

Result<TicketState> lost_with_file(const port::RenewItem& item, const std::string& path) {
  // A waiter has lost nothing but its place, and may queue again.
  if (item.token == machine::Token{}) return TicketState{port::TicketStatus::kGone};
  return Error(Errc::kLost, "sqlite store " + path +
                                ": the file was moved or replaced; what was held in it is lost");
}

Result<TicketState> Operations::renew_one(const port::RenewItem& item, Notices& notices) {
  if (auto fast = fast_renew(item)) return std::move(*fast);
  if (auto fast = beat(item)) return std::move(*fast);
  const auto applied = apply(item.name, port::to_command(item), notices);
  if (!applied) return applied.error();
  if (applied->reply.outcome == machine::Outcome::kGone && item.token != machine::Token{}) {
    const auto extras = load_extras(database_, item.name);
    if (!extras) return extras.error();
    if (const auto trace = extras->trace(); trace && trace->token == port::to_public(item.token)) {
      return port::broken_error(item.name, *trace);
    }
  }
  return port::to_ticket_state(applied->reply, item.name, applied->at);
}

std::vector<Result<TicketState>> Operations::renew(const std::vector<port::RenewItem>& items,
                                                   Notices& notices) {
  std::vector<Result<TicketState>> results;
  results.reserve(items.size());
  for (std::size_t from = 0; from < items.size(); from += kBatch) {
    const std::size_t to = std::min(from + kBatch, items.size());
    const std::size_t told_before = notices.size();
    auto done = database_.transaction([&]() -> Result<void> {
      results.erase(results.begin() + static_cast<std::ptrdiff_t>(from), results.end());
      notices.resize(told_before);
      for (std::size_t at = from; at < to; ++at) {
        results.push_back(renew_one(items[at], notices));
        if (sqlite3_get_autocommit(database_.handle()) != 0 || database_.tokens_wanted()) {
          return results.back().error();  // The transaction is over, or must start again.
        }
      }
      return {};
    });
    const bool moved = database_.moved();
    if (done && !moved) continue;
    notices.resize(told_before);
    results.erase(results.begin() + static_cast<std::ptrdiff_t>(from), results.end());
    for (std::size_t at = from; at < to; ++at) {
      results.push_back(moved ? lost_with_file(items[at], database_.path()) : done.error());
    }
  }
  return results;
}

}  // namespace holdfast::stores::sqlite
