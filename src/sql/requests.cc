#include "src/sql/requests.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "src/port/outcome.h"
#include "src/rows/owner_codec.h"

namespace holdfast::sql {
namespace {

using machine::Duration;
using machine::Instant;
using machine::ModeKind;
using port::AcquisitionState;
using port::AcquisitionStatus;

// Beyond it, ends saturate: the machine's affair.
constexpr std::int64_t kLongest = std::int64_t{1} << 50;

bool usual(Duration length) { return length.count() > 0 && length.count() < kLongest; }

bool usual(const port::AcquireRequest& request) {
  if (request.name.empty() || !request.id || request.upgrade_of || !usual(request.ttl)) {
    return false;
  }
  if (request.may_wait && request.waiter_ttl.count() <= 0) return false;
  if (request.mode.kind != ModeKind::kPermits) return true;
  return request.mode.permits > 0 && request.mode.permits <= request.mode.capacity;
}

const machine::LockImage* after(const Applied& applied) {
  return applied.after ? &*applied.after : nullptr;
}

machine::OwnerPtr with_wake(const machine::OwnerPtr& owner, const std::string& wake) {
  machine::OwnerInfo info = owner ? *owner : machine::OwnerInfo{};
  info.wake = wake;
  return std::make_shared<const machine::OwnerInfo>(std::move(info));
}

// A command about one lock. `answer` makes the result of what the machine did.
template <typename T, typename Answer>
CommandPtr command_of(const std::string& name, machine::AcquisitionId id,
                      base::BootInstant deadline, port::Done<T> done, Answer answer) {
  auto command = std::make_shared<Command>();
  command->deadline = deadline;
  command->parts.push_back({name, id, {}});
  command->fail = [done](const Error& why) { done(why); };
  command->answer = [done, answer](const std::vector<Applied>& applied) {
    done(answer(applied.front()));
  };
  return command;
}

Command::Fast fast_acquire(Engine& engine, const port::AcquireRequest& request,
                           const machine::OwnerPtr& owner,
                           const port::Done<AcquisitionState>& done) {
  const bool permits = request.mode.kind == ModeKind::kPermits;
  FastCommand grant{/*grants=*/true, request.name, request.id};
  grant.mode = static_cast<int>(request.mode.kind);
  grant.permits = permits ? request.mode.permits : 1;
  grant.kind = permits ? static_cast<int>(ModeKind::kPermits) : 0;
  grant.capacity = permits ? request.mode.capacity : 1;
  grant.ttl = request.ttl.count();
  grant.waiter_ttl = request.waiter_ttl.count();
  rows::encode_owner(owner, engine.channel(), grant.owner);
  return {std::move(grant), [done, ttl = request.ttl](std::int64_t token) {
            AcquisitionState state;
            state.status = AcquisitionStatus::kHeld;
            state.token = {0, static_cast<std::uint64_t>(token)};
            state.lease = ttl;
            done(state);
          }};
}

}  // namespace

CommandPtr acquire_command(Engine& engine, port::AcquireRequest request,
                           port::Done<AcquisitionState> done) {
  const auto asked = std::make_shared<port::AcquireRequest>(std::move(request));
  asked->owner = with_wake(asked->owner, engine.channel());
  auto command = command_of<AcquisitionState>(
      asked->name, asked->id, asked->deadline, done, [&engine, asked](const Applied& applied) {
        auto state = port::to_acquire_result(applied.reply, *asked, after(applied), applied.at);
        if (state && state->status == AcquisitionStatus::kWaiting) {
          engine.waits(asked->id, asked->name);
        }
        return state;
      });
  command->acquires = true;
  command->parts.front().action = [asked](Duration) -> machine::Action {
    return port::to_command(*asked);
  };
  if (usual(*asked)) command->fast = fast_acquire(engine, *asked, asked->owner, done);
  return command;
}

CommandPtr acquire_all_command(Engine& engine, std::vector<port::AcquireRequest> requests,
                               port::Done<port::Store::Grants> done) {
  const auto asked = std::make_shared<std::vector<port::AcquireRequest>>(std::move(requests));
  auto command = std::make_shared<Command>();
  command->deadline = asked->front().deadline;
  command->acquires = command->all_or_nothing = true;
  command->fail = [done](const Error& why) { done(why); };
  for (port::AcquireRequest& request : *asked) {
    request.may_wait = false;
    request.owner = with_wake(request.owner, engine.channel());
    command->parts.push_back(
        {request.name, request.id,
         [asked, &request](Duration) -> machine::Action { return port::to_command(request); }});
  }
  command->answer = [asked, done](const std::vector<Applied>& applied) {
    std::vector<AcquisitionState> held;
    for (std::size_t at = 0; at < applied.size(); ++at) {
      auto state = port::to_acquire_result(applied[at].reply, (*asked)[at], after(applied[at]),
                                           applied[at].at);
      if (!state) return done(state.error());
      if (state->status != AcquisitionStatus::kHeld) return done(port::Store::Grants());
      held.push_back(*state);
    }
    done(port::Store::Grants(std::move(held)));
  };
  return command;
}

CommandPtr end_command(const port::AcquisitionRequest& request, bool release,
                       port::Done<port::EndStatus> done) {
  auto command = command_of<port::EndStatus>(request.name, request.id, request.deadline, done,
                                             [name = request.name](const Applied& applied) {
                                               return port::to_end_status(applied.reply, name);
                                             });
  command->ends = true;
  Command::Part& part = command->parts.front();
  part.action = [command = command.get(), release](Duration tombstone) -> machine::Action {
    const Command::Part& own = command->parts.front();
    if (release) return machine::Release{own.name, own.id, tombstone};
    return machine::Cancel{own.name, own.id, tombstone};
  };
  if (release && request.id) {
    command->fast = {{/*grants=*/false, request.name, request.id},
                     [done](std::int64_t) { done(port::EndStatus::kReleased); },
                     request.others_wait};
  }
  return command;
}

CommandPtr renew_command(Engine& engine, const port::RenewItem& item, base::BootInstant deadline,
                         port::Done<AcquisitionState> done) {
  const auto asked = std::make_shared<port::RenewItem>(item);
  auto command = command_of<AcquisitionState>(
      item.name, item.id, deadline, std::move(done),
      [&engine, asked](const Applied& applied) -> Result<AcquisitionState> {
        const auto& trace = applied.before->trace;
        if (applied.reply.outcome == machine::Outcome::kGone) engine.waits_no_more(asked->id);
        if (applied.reply.outcome == machine::Outcome::kGone && asked->token != machine::Token{} &&
            trace && trace->token == port::to_public(asked->token)) {
          return port::broken_error(asked->name, *trace);
        }
        return port::to_ticket_state(applied.reply, asked->name, applied.at);
      });
  command->parts.front().action = [asked](Duration) -> machine::Action {
    return port::to_command(*asked);
  };
  return command;
}

CommandPtr downgrade_command(const port::AcquisitionRequest& request,
                             port::Done<AcquisitionState> done) {
  auto command = command_of<AcquisitionState>(
      request.name, request.id, request.deadline, std::move(done),
      [request](const Applied& applied) {
        return port::to_downgrade_result(applied.reply, request.name, request.id, after(applied));
      });
  command->parts.front().action = [command = command.get()](Duration tombstone) -> machine::Action {
    const Command::Part& own = command->parts.front();
    return machine::Downgrade{own.name, own.id, tombstone};
  };
  return command;
}

CommandPtr break_command(const port::BreakRequest& request, port::Done<bool> done) {
  const auto asked = std::make_shared<port::BreakRequest>(request);
  auto command = command_of<bool>(
      request.name, {}, request.deadline, std::move(done),
      [asked](const Applied& applied) { return port::to_done(applied.reply, asked->name); });
  command->parts.front().action = [asked](Duration) -> machine::Action {
    return machine::Break{asked->name, asked->token, {}, asked->by};
  };
  return command;
}

CommandPtr set_value_command(const port::AcquisitionRequest& request, std::string value,
                             port::Done<bool> done) {
  auto command = command_of<bool>(
      request.name, request.id, request.deadline, std::move(done),
      [name = request.name](const Applied& applied) { return port::to_done(applied.reply, name); });
  command->parts.front().action = [command = command.get(),
                                   value = std::move(value)](Duration) -> machine::Action {
    const Command::Part& own = command->parts.front();
    return machine::SetValue{own.name, own.id, value};
  };
  return command;
}

CommandPtr keep_command(const port::KeepRequest& request, port::Done<bool> done) {
  const auto asked = std::make_shared<port::KeepRequest>(request);
  auto command = command_of<bool>(
      request.name, request.id, request.deadline, std::move(done),
      [asked](const Applied& applied) { return port::to_done(applied.reply, asked->name); });
  command->parts.front().action = [asked](Duration) -> machine::Action {
    return machine::Keep{asked->name, asked->id, asked->seq, asked->ttl, asked->value};
  };
  return command;
}

CommandPtr resize_command(const port::AcquisitionRequest& request, std::uint32_t capacity,
                          port::Done<bool> done) {
  auto command = command_of<bool>(
      request.name, request.id, request.deadline, std::move(done),
      [name = request.name](const Applied& applied) { return port::to_done(applied.reply, name); });
  command->parts.front().action = [command = command.get(), capacity](Duration) -> machine::Action {
    const Command::Part& own = command->parts.front();
    return machine::Resize{own.name, own.id, capacity};
  };
  return command;
}

LockInfo describe(const ReadLock& lock) {
  machine::LockImage image = lock.stored.image;
  const Instant at(Duration(std::max(lock.now, lock.stored.at)));
  std::erase_if(image.tickets, [&](const machine::TicketImage& ticket) {
    return !ticket.system && ticket.lease_end <= at;
  });
  return port::to_lock_info(image, at, lock.trace);
}

}  // namespace holdfast::sql
