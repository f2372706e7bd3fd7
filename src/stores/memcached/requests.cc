#include "src/stores/memcached/requests.h"

#include <memory>
#include <optional>
#include <utility>

#include "src/port/outcome.h"

namespace holdfast::stores::memcached {
namespace {

using port::AcquisitionState;

const machine::LockImage* after(const Applied& applied) {
  return applied.after ? &*applied.after : nullptr;
}

BreakInfo to_public(const Document::Broken& broken) {
  return {port::to_public(broken.token), port::to_public(broken.by)};
}

// `answer` makes the result of what the machine did.
template <typename T, typename Answer>
CommandPtr command_of(const std::string& name, machine::AcquisitionId id,
                      base::BootInstant deadline, port::Done<T> done, Answer answer) {
  auto command = std::make_shared<Command>();
  command->name = name;
  command->id = id;
  command->deadline = deadline;
  command->fail = [done](const Error& why) { done(why); };
  command->answer = [done = std::move(done), answer = std::move(answer)](const Applied& applied) {
    done(answer(applied));
  };
  return command;
}

}  // namespace

CommandPtr acquire_command(port::AcquireRequest request, port::Done<AcquisitionState> done) {
  const auto asked = std::make_shared<const port::AcquireRequest>(std::move(request));
  auto command = command_of<AcquisitionState>(
      asked->name, asked->id, asked->deadline, std::move(done), [asked](const Applied& applied) {
        return port::to_acquire_result(applied.reply, *asked, after(applied), applied.at);
      });
  command->acquires = command->waits = true;
  command->action = [asked]() -> machine::Action { return port::to_command(*asked); };
  return command;
}

CommandPtr end_command(const port::AcquisitionRequest& request, bool release,
                       port::Done<port::EndStatus> done) {
  auto command = command_of<port::EndStatus>(request.name, request.id, request.deadline,
                                             std::move(done),
                                             [name = request.name](const Applied& applied) {
                                               return port::to_end_status(applied.reply, name);
                                             });
  command->ends = true;
  command->action = [command = command.get(), release]() -> machine::Action {
    if (release) return machine::Release{command->name, command->id, {}};
    return machine::Cancel{command->name, command->id, {}};
  };
  return command;
}

CommandPtr renew_command(const port::RenewItem& item, base::BootInstant deadline,
                         port::Done<AcquisitionState> done) {
  const auto asked = std::make_shared<const port::RenewItem>(item);
  auto command = command_of<AcquisitionState>(
      item.name, item.id, deadline, std::move(done),
      [asked](const Applied& applied) -> Result<AcquisitionState> {
        const auto& broken = applied.before->broken;
        if (applied.reply.outcome == machine::Outcome::kGone && asked->token != machine::Token{} &&
            broken && broken->token == asked->token) {
          return port::broken_error(asked->name, to_public(*broken));
        }
        return port::to_ticket_state(applied.reply, asked->name, applied.at);
      });
  command->renews = command->waits = true;
  command->action = [asked]() -> machine::Action { return port::to_command(*asked); };
  return command;
}

CommandPtr downgrade_command(const port::AcquisitionRequest& request,
                             port::Done<AcquisitionState> done) {
  auto command = command_of<AcquisitionState>(
      request.name, request.id, request.deadline, std::move(done),
      [name = request.name, id = request.id](const Applied& applied) {
        return port::to_downgrade_result(applied.reply, name, id, after(applied));
      });
  command->looks = true;
  command->action = [command = command.get()]() -> machine::Action {
    return machine::Downgrade{command->name, command->id, {}};
  };
  return command;
}

CommandPtr break_command(const port::BreakRequest& request, port::Done<bool> done) {
  const auto asked = std::make_shared<const port::BreakRequest>(request);
  auto command = command_of<bool>(
      request.name, {}, request.deadline, std::move(done),
      [asked](const Applied& applied) { return port::to_done(applied.reply, asked->name); });
  command->action = [asked]() -> machine::Action {
    return machine::Break{asked->name, asked->token, {}, asked->by};
  };
  return command;
}

CommandPtr set_value_command(const port::AcquisitionRequest& request, std::string value,
                             port::Done<bool> done) {
  auto command = command_of<bool>(
      request.name, request.id, request.deadline, std::move(done),
      [name = request.name](const Applied& applied) { return port::to_done(applied.reply, name); });
  command->action = [command = command.get(),
                     value = std::move(value)]() -> machine::Action {
    return machine::SetValue{command->name, command->id, value};
  };
  return command;
}

CommandPtr keep_command(const port::KeepRequest& request, port::Done<bool> done) {
  const auto asked = std::make_shared<const port::KeepRequest>(request);
  auto command = command_of<bool>(
      request.name, request.id, request.deadline, std::move(done),
      [asked](const Applied& applied) { return port::to_done(applied.reply, asked->name); });
  command->action = [asked]() -> machine::Action {
    return machine::Keep{asked->name, asked->id, asked->seq, asked->ttl, asked->value};
  };
  return command;
}

CommandPtr resize_command(const port::AcquisitionRequest& request, std::uint32_t capacity,
                          port::Done<bool> done) {
  auto command = command_of<bool>(
      request.name, request.id, request.deadline, std::move(done),
      [name = request.name](const Applied& applied) { return port::to_done(applied.reply, name); });
  command->action = [command = command.get(), capacity]() -> machine::Action {
    return machine::Resize{command->name, command->id, capacity};
  };
  return command;
}

LockInfo describe(Document document, machine::Instant now) {
  std::erase_if(document.image.tickets, [&](const machine::TicketImage& ticket) {
    return !ticket.system && ticket.lease_end <= now;
  });
  std::optional<BreakInfo> trace;
  if (document.broken) trace = to_public(*document.broken);
  return port::to_lock_info(document.image, now, std::move(trace));
}

}  // namespace holdfast::stores::memcached
