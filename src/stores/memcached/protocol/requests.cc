#include "src/stores/memcached/protocol/requests.h"

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

// `act` makes the machine's action of what was asked for, and `answer` the result of what the
// machine did.
template <typename T, typename Asked, typename Act, typename Answer>
class PortCommand final : public Command {
 public:
  PortCommand(Asked asked, port::Done<T> done, Act act, Answer answer)
      : asked_(std::move(asked)),
        done_(std::move(done)),
        act_(std::move(act)),
        answer_(std::move(answer)) {}

  std::optional<machine::Action> action() const override { return act_(asked_); }
  void answer(const Applied& applied) override { done_(answer_(asked_, applied)); }
  void fail(const Error& why) override { done_(why); }
  const Asked& asked() const { return asked_; }

 private:
  const Asked asked_;
  const port::Done<T> done_;
  const Act act_;
  const Answer answer_;
};

template <typename T, typename Asked, typename Act, typename Answer>
auto command_of(Asked asked, port::Done<T> done, Act act, Answer answer) {
  auto command = std::make_shared<PortCommand<T, Asked, Act, Answer>>(
      std::move(asked), std::move(done), std::move(act), std::move(answer));
  command->name = command->asked().name;
  if constexpr (requires { command->asked().id; }) command->id = command->asked().id;
  if constexpr (requires { command->asked().deadline; }) {
    command->deadline = command->asked().deadline;
  }
  return command;
}

Result<bool> done_of(const Applied& applied, const std::string& name) {
  return port::to_done(applied.reply, name);
}

}  // namespace

CommandPtr acquire_command(port::AcquireRequest request, port::Done<AcquisitionState> done) {
  auto command = command_of<AcquisitionState>(
      std::move(request), std::move(done),
      [](const port::AcquireRequest& asked) { return port::to_command(asked); },
      [](const port::AcquireRequest& asked, const Applied& applied) {
        return port::to_acquire_result(applied.reply, asked, after(applied), applied.at);
      });
  command->acquires = command->waits = true;
  return command;
}

CommandPtr end_command(port::AcquisitionRequest request, bool release,
                       port::Done<port::EndStatus> done) {
  auto command = command_of<port::EndStatus>(
      std::move(request), std::move(done),
      [release](const port::AcquisitionRequest& asked) -> machine::Action {
        if (release) return machine::Release{asked.name, asked.id, {}};
        return machine::Cancel{asked.name, asked.id, {}};
      },
      [](const port::AcquisitionRequest& asked, const Applied& applied) {
        return port::to_end_status(applied.reply, asked.name);
      });
  command->ends = true;
  return command;
}

CommandPtr renew_command(const port::RenewItem& item, base::BootInstant deadline,
                         port::Done<AcquisitionState> done) {
  auto command = command_of<AcquisitionState>(
      item, std::move(done), [](const port::RenewItem& asked) { return port::to_command(asked); },
      [](const port::RenewItem& asked, const Applied& applied) -> Result<AcquisitionState> {
        const auto& broken = applied.before->broken;
        if (applied.reply.outcome == machine::Outcome::kGone && asked.token != machine::Token{} &&
            broken && broken->token == asked.token) {
          return port::broken_error(asked.name, to_public(*broken));
        }
        return port::to_ticket_state(applied.reply, asked.name, applied.at);
      });
  command->deadline = deadline;
  command->renews = command->waits = true;
  return command;
}

CommandPtr downgrade_command(port::AcquisitionRequest request, port::Done<AcquisitionState> done) {
  auto command = command_of<AcquisitionState>(
      std::move(request), std::move(done),
      [](const port::AcquisitionRequest& asked) {
        return machine::Downgrade{asked.name, asked.id, {}};
      },
      [](const port::AcquisitionRequest& asked, const Applied& applied) {
        return port::to_downgrade_result(applied.reply, asked.name, asked.id, after(applied));
      });
  command->looks = true;
  return command;
}

CommandPtr break_command(port::BreakRequest request, port::Done<bool> done) {
  return command_of<bool>(
      std::move(request), std::move(done),
      [](const port::BreakRequest& asked) {
        return machine::Break{asked.name, asked.token, {}, asked.by};
      },
      [](const port::BreakRequest& asked, const Applied& applied) {
        return done_of(applied, asked.name);
      });
}

CommandPtr set_value_command(port::AcquisitionRequest request, std::string value,
                             port::Done<bool> done) {
  return command_of<bool>(
      std::move(request), std::move(done),
      [value = std::move(value)](const port::AcquisitionRequest& asked) {
        return machine::SetValue{asked.name, asked.id, value};
      },
      [](const port::AcquisitionRequest& asked, const Applied& applied) {
        return done_of(applied, asked.name);
      });
}

CommandPtr keep_command(port::KeepRequest request, port::Done<bool> done) {
  return command_of<bool>(
      std::move(request), std::move(done),
      [](const port::KeepRequest& asked) {
        return machine::Keep{asked.name, asked.id, asked.seq, asked.ttl, asked.value};
      },
      [](const port::KeepRequest& asked, const Applied& applied) {
        return done_of(applied, asked.name);
      });
}

CommandPtr resize_command(port::AcquisitionRequest request, std::uint32_t capacity,
                          port::Done<bool> done) {
  return command_of<bool>(
      std::move(request), std::move(done),
      [capacity](const port::AcquisitionRequest& asked) {
        return machine::Resize{asked.name, asked.id, capacity};
      },
      [](const port::AcquisitionRequest& asked, const Applied& applied) {
        return done_of(applied, asked.name);
      });
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
