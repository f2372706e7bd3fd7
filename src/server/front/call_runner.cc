#include "src/server/front/call_runner.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/server/front/calls.h"
#include "src/server/front/pending_reply.h"
#include "src/server/front/reply_writer.h"

namespace holdfast::server {
namespace {

using machine::Outcome;
using Answers = std::vector<Result<Answer>>;

void append_answer(std::string& out, const Result<Answer>& answer) {
  answer ? append_text(out, answer_text(*answer)) : append_error(out, failure_text(answer.error()));
}

void run_one(Service& service, const PendingReply& reply, const Request& request) {
  service.submit(request, [reply](const Result<Answer>& answer) {
    std::string bytes;
    append_answer(bytes, answer);
    reply.give(std::move(bytes));
  });
}

void run_each(Service& service, const PendingReply& reply, const Call& call) {
  if (call.requests.size() == 1) return run_one(service, reply, call.requests.front());
  service.submit_list(call.requests, [reply](const Result<Answers>& answers) {
    if (!answers) return reply.fail(answers.error());
    std::string bytes;
    append_array(bytes, answers->size());
    for (const Result<Answer>& each : *answers) append_answer(bytes, each);
    reply.give(std::move(bytes));
  });
}

// A refused upgrade: has the shared lease ended, or can it not be upgraded?
void run_upgrade(Service& service, const PendingReply& reply, const Request& request) {
  const auto& acquire = std::get<machine::Acquire>(request.action);
  service.submit(request, [&service, reply, name = std::string(acquire.name),
                           base = acquire.upgrade_of](const Result<Answer>& answer) {
    if (!answer) return reply.fail(answer.error());
    if (answer->reply.outcome != Outcome::kInvalid) return reply.text(answer_text(*answer));
    service.inspect(name, [reply, base, answer = *answer](const Result<LockSight>& sight) {
      if (!sight) return reply.fail(sight.error());
      const bool holds =
          sight->lock &&
          std::any_of(sight->lock->tickets.begin(), sight->lock->tickets.end(),
                      [&](const auto& each) { return each.held && each.id == base; });
      reply.text(answer_text(answer, /*base_ended=*/!holds));
    });
  });
}

void run_acquire(Service& service, const PendingReply& reply, const Call& call) {
  const auto& first = std::get<machine::Acquire>(call.requests.front().action);
  if (call.requests.size() == 1 && first.upgrade_of) {
    return run_upgrade(service, reply, call.requests.front());
  }
  run_each(service, reply, call);
}

void run_acquire_all(Service& service, const PendingReply& reply, const Call& call) {
  service.submit_all(call.requests, [reply](const Result<Service::AllOrNone>& outcome) {
    if (!outcome) return reply.fail(outcome.error());
    if (outcome->refused) {
      return reply.text(std::to_string(outcome->refused_index + 1) + ' ' +
                        answer_text(*outcome->refused));
    }
    std::string bytes;
    append_array(bytes, outcome->granted.size());
    for (const Answer& each : outcome->granted) append_text(bytes, answer_text(each));
    reply.give(std::move(bytes));
  });
}

void run_renew(Service& service, const PendingReply& reply, const Call& call) {
  service.submit_list(call.requests, [reply](const Result<Answers>& answers) {
    if (!answers) return reply.fail(answers.error());
    std::string bytes;
    append_array(bytes, answers->size() + 1);
    for (const Result<Answer>& each : *answers) {
      append_text(bytes, each ? renewal_text(*each) : "error " + failure_text(each.error()));
    }
    append_text(bytes, "");
    reply.give(std::move(bytes));
  });
}

// The second answer tells how the ticket stands afterwards.
void run_downgrade(Service& service, const PendingReply& reply, const Call& call) {
  service.submit_list(call.requests, [reply](const Result<Answers>& answers) {
    if (!answers) return reply.fail(answers.error());
    for (const Result<Answer>& each : *answers) {
      if (!each) return reply.fail(each.error());
    }
    const Answer& done = *answers->front();
    const Answer& after = *answers->back();
    switch (done.reply.outcome) {
      case Outcome::kNotHeld:
      case Outcome::kGone: return reply.text("gone");
      case Outcome::kDone:
        return reply.text(after.reply.outcome == Outcome::kHeld ? answer_text(after) : "gone");
      default: return reply.text(answer_text(done));
    }
  });
}

void run_list(Service& service, const PendingReply& reply, const Call& call) {
  service.list(call.name, call.after, call.limit,
               [reply](const Result<std::vector<LockSight>>& found) {
                 if (!found) return reply.fail(found.error());
                 std::string bytes;
                 append_array(bytes, found->size());
                 for (const LockSight& each : *found) {
                   append_array(bytes, 2);
                   append_text(bytes, each.name);
                   append_sight(bytes, each);
                 }
                 reply.give(std::move(bytes));
               });
}

void run_inspect(Service& service, CommandContext& context, const PendingReply& reply,
                 const Call& call) {
  service.inspect(call.name, [&context, reply](const Result<LockSight>& sight) {
    if (!sight) return reply.fail(sight.error());
    std::string bytes;
    append_sight(bytes, *sight, context.last_token(sight->name));
    reply.give(std::move(bytes));
  });
}

void run_value(Service& service, const PendingReply& reply, const Call& call) {
  service.inspect(call.name, [reply](const Result<LockSight>& sight) {
    if (!sight) return reply.fail(sight.error());
    reply.text(sight->lock ? sight->lock->value : std::string());
  });
}

std::string status_reply(const CommandContext& context) {
  const Greeting& greeting = context.greeting();
  const Service::State state = context.state();
  const auto up =
      std::chrono::duration_cast<std::chrono::seconds>(base::BootClock::now() - greeting.started);
  const std::pair<std::string_view, std::string> fields[] = {
      {"version", greeting.version},
      {"journal", greeting.journal},
      {"journal_id", context.journal_id()},
      {"place", greeting.place},
      {"term", context.term()},
      {"pid", std::to_string(::getpid())},
      {"uptime_s", std::to_string(up.count())},
      {"connections", std::to_string(context.connections())},
      {"holders", std::to_string(state.holders)},
      {"waiters", std::to_string(state.waiters)},
      {"uncommitted_bytes", std::to_string(state.uncommitted)},
      {"full", state.full ? "1" : "0"},
      {"journal_bytes", std::to_string(state.disk.journal)},
      {"disk_free_bytes", std::to_string(state.disk.free)},
      {"disk_size_bytes", std::to_string(state.disk.size)}};
  std::string bytes;
  append_array(bytes, 2 * std::size(fields));
  for (const auto& [name, value] : fields) {
    append_text(bytes, name);
    append_text(bytes, value);
  }
  return bytes;
}

}  // namespace

void run_call(Service& service, CommandContext& context, Connection& connection,
              const Words& words) {
  const auto call = read_call(words, connection.owners);
  if (!call) {
    std::string bytes;
    append_error(bytes, "ERR " + call.error().message());
    return connection.reply(bytes);
  }
  if (call->op == Op::kStatus) return connection.reply(status_reply(context));
  if (call->op == Op::kAttach) {
    connection.attached = true;
    std::string bytes;
    append_status(bytes, "HF1 " + context.journal_id() + " 0 " + context.term());
    return connection.reply(bytes);
  }
  if (!connection.attached) {
    return connection.reply("-ERR attach first: this connection has not asked for the term\r\n");
  }
  const PendingReply reply(connection);
  switch (call->op) {
    case Op::kAcquire: return run_acquire(service, reply, *call);
    case Op::kAcquireAll: return run_acquire_all(service, reply, *call);
    case Op::kRenew: return run_renew(service, reply, *call);
    case Op::kDowngrade: return run_downgrade(service, reply, *call);
    case Op::kEnd:
    case Op::kBreak:
    case Op::kResize:
    case Op::kSetValue: return run_each(service, reply, *call);
    case Op::kInspect: return run_inspect(service, context, reply, *call);
    case Op::kValue: return run_value(service, reply, *call);
    case Op::kList: return run_list(service, reply, *call);
    case Op::kStatus:
    case Op::kAttach: break;
  }
}

}  // namespace holdfast::server
