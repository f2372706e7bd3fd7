#include "src/stores/sqlite/operations.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "src/machine/lock_machine.h"
#include "src/port/outcome.h"

namespace holdfast::stores::sqlite {
namespace {

using machine::AcquisitionId;
using machine::Instant;
using machine::LockImage;
using machine::TicketImage;
using port::AcquisitionRequest;
using port::AcquisitionState;
using port::EndStatus;

constexpr std::size_t kBatch = 128;
// A step that went as far as the loaded part of a queue is repeated on a part this many times as
// long.
constexpr std::size_t kReachFurther = 4;
// More than one step of the machine can give.
constexpr std::int64_t kTokensPerStep = 256;

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

// A Resize looks at all waiters and a Tick at all that has ended, so both need the queue's far end.
bool reaches_only_the_front(const machine::Action& action) {
  return !std::holds_alternative<machine::Resize>(action) &&
         !std::holds_alternative<machine::Tick>(action);
}

// The machine counts only the loaded waiters against a limit, so the others are taken off it. The
// result is never zero, which would be no limit.
void count_those_left_out(std::int64_t left_out, machine::Action& action) {
  auto* acquire = std::get_if<machine::Acquire>(&action);
  if (acquire == nullptr || acquire->max_waiters == 0) return;
  acquire->max_waiters = static_cast<std::uint32_t>(
      std::max<std::int64_t>(std::int64_t{acquire->max_waiters} - left_out, 1));
}

}  // namespace

Result<Operations::Step> Operations::run(std::string_view name, machine::Action action,
                                         std::size_t reach) {
  const std::int64_t now = database_.now();
  Reach loaded{kWhole, id_of(action), now};
  if (reaches_only_the_front(action)) loaded.waiters = reach;
  auto before = load_lock(database_, name, loaded);
  if (!before) return before.error();
  const TokenRange& tokens = database_.tokens();
  const auto last = static_cast<std::int64_t>(before->image.last_token.counter);
  // The step must not run out of tokens midway: a waiter that could be admitted would be left
  // waiting.
  if (tokens.ceiling - std::max(last, tokens.floor) < kTokensPerStep) {
    return database_.want_tokens();
  }
  count_those_left_out(before->left_out, action);

  machine::Limits limits;
  limits.token_ceiling = static_cast<std::uint64_t>(tokens.ceiling);
  limits.chunk = 8;
  machine::LockMachine machine({0, static_cast<std::uint64_t>(tokens.floor)}, limits);
  if (before->exists && !machine.restore_lock(before->image)) {
    return database_.corrupt("the tickets of lock '" + std::string(name) +
                             "' contradict each other");
  }
  Step step;
  step.before = *std::move(before);
  step.applied.at = instant_of(std::max(step.before.at, now));
  step.applied.reply = machine.apply({step.applied.at, std::move(action)}, step.effects);
  step.applied.after = machine.inspect(name);
  step.due = machine.next_event().value_or(Instant::max()).time_since_epoch().count();
  return step;
}

Result<void> Operations::save(const Step& step) {
  if (!rows::changes_anything(step.effects)) return {};
  const auto& after = step.applied.after;
  return save_lock(
      database_,
      rows::changes_of(step.before, {step.applied.at.time_since_epoch().count(), step.due,
                                     after ? &*after : nullptr, &step.effects}));
}

Result<Operations::Applied> Operations::apply(std::string_view name, const machine::Action& action,
                                              Notices& notices) {
  if (const auto tokens = database_.load_tokens(); !tokens) return tokens.error();
  const AcquisitionId own = id_of(action);
  auto step = run(name, action, reach_);
  // The step may have needed waiters that were left out. Nothing is saved yet, so it runs again on
  // more of them.
  for (std::size_t reach = reach_; step; step = run(name, action, reach)) {
    const auto& after = step->applied.after;
    if (reached_enough(step->before, after ? &*after : nullptr)) break;
    reach *= kReachFurther;
  }
  if (!step) return step.error();
  if (auto done = save(*step); !done) return done.error();
  if (auto done = count_ahead(name, own, *step); !done) return done.error();
  rows::collect_notices(step->before, step->effects, own, wake_, notices);
  return std::move(step->applied);
}

// The machine has counted the loaded waiters only. Called once the step is saved.
Result<void> Operations::count_ahead(std::string_view name, AcquisitionId id, Step& step) {
  machine::Reply& reply = step.applied.reply;
  if (step.before.left_out == 0 || reply.outcome != machine::Outcome::kWaiting) return {};
  const std::vector<TicketImage>& tickets = step.applied.after->tickets;
  const auto own = std::find_if(tickets.begin(), tickets.end(),
                                [&](const TicketImage& ticket) { return ticket.id == id; });
  if (own == tickets.end() || own->upgrade_of || own->order <= step.before.reached) return {};
  if (own->order >= step.before.image.next_order) {  // New, at the end: behind all of them.
    reply.position += static_cast<std::uint32_t>(step.before.left_out);
    return {};
  }
  const auto ahead = ahead_of(name, static_cast<std::int64_t>(own->order));
  if (!ahead) return ahead.error();
  reply.position = *ahead;
  return {};
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

Result<AcquisitionState> Operations::acquire(const port::AcquireRequest& request,
                                             Notices& notices) {
  if (auto fast = fast_acquire(request)) return still_here(request, std::move(*fast));
  machine::Acquire command = port::to_command(request);
  command.owner = with_wake(request.owner);
  const auto applied = apply_alone(request.name, command, notices);
  if (!applied) return applied.error();
  const LockImage* current = applied->after ? &*applied->after : nullptr;
  return still_here(request,
                    port::to_acquire_result(applied->reply, request, current, applied->at));
}

// A grant in a file that nobody else can find is none. This look comes after the commit: a file
// that is here now was here then.
Result<AcquisitionState> Operations::still_here(const port::AcquireRequest& request,
                                                Result<AcquisitionState> result) {
  if (!result || !database_.file_moved()) return result;
  Notices nobody;
  const auto undone = release({request.name, request.id, request.deadline}, nobody);
  if (!undone) {
    return Error(Errc::kOutcomeUnknown, "sqlite store " + database_.path() +
                                            ": the file was moved or replaced during the request");
  }
  return Error(Errc::kUnavailable,
               "sqlite store " + database_.path() + ": the file was moved or replaced");
}

Result<AcquisitionState> Operations::acquire_inside(const port::AcquireRequest& request,
                                                    Notices& notices) {
  if (auto fast = fast_acquire(request, /*alone=*/false)) return std::move(*fast);
  machine::Acquire command = port::to_command(request);
  command.may_wait = false;
  command.owner = with_wake(request.owner);
  const auto applied = apply(request.name, command, notices);
  if (!applied) return applied.error();
  const LockImage* current = applied->after ? &*applied->after : nullptr;
  return port::to_acquire_result(applied->reply, request, current, applied->at);
}

Result<port::Store::Grants> Operations::acquire_all(
    const std::vector<port::AcquireRequest>& requests, const rows::EndedIds& ended,
    Notices& notices) {
  const std::size_t told_before = notices.size();
  std::vector<AcquisitionState> held;
  bool all_free = true;
  auto done = database_.transaction([&]() -> Result<void> {
    // The transaction may run again after a conflict, so it begins from nothing each time.
    notices.resize(told_before);
    held.clear();
    all_free = true;
    for (const port::AcquireRequest& request : requests) {
      auto state = ended.contains(request.id) ? AcquisitionState{port::AcquisitionStatus::kGone}
                                              : acquire_inside(request, notices);
      if (!state) return state.error();
      all_free = state->status == port::AcquisitionStatus::kHeld;
      // Any error rolls the whole transaction back, and this one is not told.
      if (!all_free) return Error(Errc::kTimedOut, "rolled back: one is not free");
      held.push_back(*std::move(state));
    }
    return {};
  });
  if (!done) notices.resize(told_before);
  if (!all_free) return port::Store::Grants();
  if (!done) return done.error();
  for (std::size_t at = 0; at < requests.size(); ++at) {
    // The file may have been moved before the commit. Then no grant counts, and all are given back.
    if (auto still = still_here(requests[at], held[at]); !still) {
      Notices nobody;
      for (++at; at < requests.size(); ++at) {
        static_cast<void>(
            release({requests[at].name, requests[at].id, requests[at].deadline}, nobody));
      }
      return still.error();
    }
  }
  return port::Store::Grants(std::move(held));
}

Result<EndStatus> Operations::release_inside(const AcquisitionRequest& request, Notices& notices) {
  if (auto fast = fast_release(request, /*alone=*/false)) return std::move(*fast);
  const auto applied = apply(request.name, machine::Release{request.name, request.id, {}}, notices);
  if (!applied) return applied.error();
  return port::to_end_status(applied->reply, request.name);
}

Result<std::vector<Result<EndStatus>>> Operations::release_all(
    const std::vector<AcquisitionRequest>& requests, Notices& notices) {
  const std::size_t told_before = notices.size();
  std::vector<Result<EndStatus>> ends;
  auto done = database_.transaction([&]() -> Result<void> {
    notices.resize(told_before);
    ends.clear();
    for (const AcquisitionRequest& request : requests) {
      ends.push_back(release_inside(request, notices));
      if (sqlite3_get_autocommit(database_.handle()) != 0 || database_.tokens_wanted()) {
        return ends.back().error();  // The transaction is over, or must start again.
      }
    }
    return {};
  });
  if (done) return ends;
  notices.resize(told_before);
  return done.error();
}

Result<EndStatus> Operations::release(const AcquisitionRequest& request, Notices& notices) {
  if (auto fast = fast_release(request)) return std::move(*fast);
  const auto applied =
      apply_alone(request.name, machine::Release{request.name, request.id, {}}, notices);
  if (!applied) return applied.error();
  return port::to_end_status(applied->reply, request.name);
}

Result<EndStatus> Operations::cancel(const AcquisitionRequest& request, Notices& notices) {
  const auto applied =
      apply_alone(request.name, machine::Cancel{request.name, request.id, {}}, notices);
  if (!applied) return applied.error();
  return port::to_end_status(applied->reply, request.name);
}

Result<AcquisitionState> Operations::downgrade(const AcquisitionRequest& request,
                                               Notices& notices) {
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

Result<bool> Operations::set_value(const AcquisitionRequest& request, std::string value,
                                   Notices& notices) {
  const auto applied = apply_alone(
      request.name, machine::SetValue{request.name, request.id, std::move(value)}, notices);
  if (!applied) return applied.error();
  return port::to_done(applied->reply, request.name);
}

Result<bool> Operations::keep(const port::KeepRequest& request, Notices& notices) {
  const auto applied = apply_alone(
      request.name,
      machine::Keep{request.name, request.id, request.seq, request.ttl, request.value}, notices);
  if (!applied) return applied.error();
  return port::to_done(applied->reply, request.name);
}

Result<bool> Operations::resize(const AcquisitionRequest& request, std::uint32_t capacity,
                                Notices& notices) {
  const auto applied =
      apply_alone(request.name, machine::Resize{request.name, request.id, capacity}, notices);
  if (!applied) return applied.error();
  return port::to_done(applied->reply, request.name);
}

Result<AcquisitionState> lost_with_file(const port::RenewItem& item, const std::string& path) {
  // A waiter has lost nothing but its place, and may queue again.
  if (item.token == machine::Token{}) return AcquisitionState{port::AcquisitionStatus::kGone};
  return Error(Errc::kLost, "sqlite store " + path +
                                ": the file or its log was moved, removed or replaced; what was "
                                "held in it is lost");
}

Result<AcquisitionState> Operations::renew_one(const port::RenewItem& item, Notices& notices) {
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

std::vector<Result<AcquisitionState>> Operations::renew(const std::vector<port::RenewItem>& items,
                                                        Notices& notices) {
  std::vector<Result<AcquisitionState>> results;
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
