#include "src/server/front/call_runner.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/port/service/shards.h"
#include "src/server/front/calls.h"
#include "src/server/front/libraries/redisson_locks.h"
#include "src/server/front/pending_reply.h"
#include "src/server/front/reply_writer.h"
#include "src/server/requests.h"

namespace holdfast::server {
namespace {

using machine::Outcome;
using Answers = std::vector<Result<Answer>>;

void append_answer(std::string& out, const Result<Answer>& answer) {
  answer ? append_text(out, answer_text(*answer)) : append_error(out, failure_text(answer.error()));
}

// --- Rights.

bool is_new(Op op) { return op == Op::kAcquire || op == Op::kAcquireAll; }

// nullopt: the user may do it.
std::optional<Error> refuse_right(const AccountPtr& account, Op op, const Request& request) {
  return refuse(account, op == Op::kBreak ? Right::kBreak : Right::kAcquire,
                name_of(request.action));
}

std::optional<Error> refuse_step(Connection& connection, Op op, const Request& request) {
  if (auto denied = refuse_right(connection.account, op, request)) return denied;
  return is_new(op) ? connection.refuse_rate() : std::nullopt;
}

// A request that the user may not make fails alone, because a client puts renewals of many locks
// together.
void submit_allowed(Service& service, Connection& connection, const Call& call,
                    Done<Answers> done) {
  if (!connection.has_limits()) return service.submit_list(call.requests, std::move(done));
  std::vector<std::optional<Error>> refusals;
  std::vector<Request> allowed;
  for (const Request& each : call.requests) {
    refusals.push_back(refuse_step(connection, call.op, each));
    if (!refusals.back()) allowed.push_back(each);
  }
  if (allowed.size() == call.requests.size()) {
    return service.submit_list(call.requests, std::move(done));
  }
  auto merge = [refusals = std::move(refusals),
                done = std::move(done)](const Result<Answers>& answers) {
    if (!answers) return done(answers.error());
    Answers all;
    auto next = answers->begin();
    for (const auto& refusal : refusals) {
      refusal ? all.emplace_back(*refusal) : all.emplace_back(*next++);
    }
    done(std::move(all));
  };
  if (allowed.empty()) return merge(Answers{});
  service.submit_list(allowed, std::move(merge));
}

// --- Calls.

// Tells waiters of a lock-delay. That is a message of its own, because older clients take an answer
// with more words than they know for a damaged one.
void tell_delay(CommandContext& context, const PendingReply& reply, machine::AcquisitionId id,
                const Result<Answer>& answer) {
  if (!answer || answer->reply.outcome != Outcome::kWaiting) return;
  if (answer->reply.opens_at <= answer->at) return;
  port::Push push{port::Push::Kind::kDelayed, id, {}};
  push.state.opens_in = answer->reply.opens_at - answer->at;
  const Connection& asker = reply.connection();
  context.tell(asker.shard, channel_of(asker.client), push_text(push));
}

std::vector<machine::AcquisitionId> ids_of(const Call& call) {
  std::vector<machine::AcquisitionId> ids;
  for (const Request& each : call.requests) ids.push_back(id_of(each.action));
  return ids;
}

void run_one(Service& service, CommandContext& context, const PendingReply& reply,
             const Request& request) {
  service.submit(request,
                 [&context, reply, id = id_of(request.action)](const Result<Answer>& answer) {
                   std::string bytes;
                   append_answer(bytes, answer);
                   reply.give(std::move(bytes));
                   tell_delay(context, reply, id, answer);
                 });
}

void run_each(Service& service, CommandContext& context, const PendingReply& reply,
              const Call& call) {
  if (call.requests.size() == 1) return run_one(service, context, reply, call.requests.front());
  auto give = [&context, reply, ids = ids_of(call)](const Result<Answers>& answers) {
    if (!answers) return reply.fail(answers.error());
    std::string bytes;
    append_array(bytes, answers->size());
    for (const Result<Answer>& each : *answers) append_answer(bytes, each);
    reply.give(std::move(bytes));
    for (std::size_t i = 0; i < ids.size(); ++i) tell_delay(context, reply, ids[i], (*answers)[i]);
  };
  submit_allowed(service, reply.connection(), call, std::move(give));
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

void run_acquire(Service& service, CommandContext& context, const PendingReply& reply,
                 const Call& call) {
  const auto& first = std::get<machine::Acquire>(call.requests.front().action);
  if (call.requests.size() == 1 && first.upgrade_of) {
    return run_upgrade(service, reply, call.requests.front());
  }
  run_each(service, context, reply, call);
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

void run_renew(Service& service, CommandContext& context, const PendingReply& reply,
               const Call& call) {
  auto give = [&context, reply, ids = ids_of(call)](const Result<Answers>& answers) {
    if (!answers) return reply.fail(answers.error());
    std::string bytes;
    append_array(bytes, answers->size() + 1);
    for (const Result<Answer>& each : *answers) {
      append_text(bytes, each ? renewal_text(*each) : "error " + failure_text(each.error()));
    }
    append_text(bytes, "");
    reply.give(std::move(bytes));
    for (std::size_t i = 0; i < ids.size(); ++i) tell_delay(context, reply, ids[i], (*answers)[i]);
  };
  submit_allowed(service, reply.connection(), call, std::move(give));
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

std::size_t run_list(Service& service, const PendingReply& reply, const AccountPtr& account,
                     const Call& call) {
  return service.list(call.name, call.after, call.limit,
                      [reply, account](const Result<std::vector<LockSight>>& found) {
                        if (!found) return reply.fail(found.error());
                        std::string bytes;
                        append_array(bytes, found->size());
                        for (const LockSight& each : *found) {
                          append_array(bytes, 2);
                          append_text(bytes, each.name);
                          append_sight(bytes, each, {}, account);
                        }
                        reply.give(std::move(bytes));
                      });
}

std::size_t run_inspect(Service& service, CommandContext& context, const PendingReply& reply,
                        const AccountPtr& account, const Call& call) {
  return service.inspect(call.name, [&context, reply, account](const Result<LockSight>& sight) {
    if (!sight) return reply.fail(sight.error());
    std::string bytes;
    append_sight(bytes, *sight, context.last_token(sight->name), account);
    reply.give(std::move(bytes));
  });
}

std::size_t run_value(Service& service, const PendingReply& reply, const Call& call) {
  return service.inspect(call.name, [reply](const Result<LockSight>& sight) {
    if (!sight) return reply.fail(sight.error());
    // Redisson's count names its acquisition, and is for nobody else.
    const std::string value = sight->lock ? sight->lock->value : std::string();
    reply.text(is_redisson_count(value) ? std::string() : value);
  });
}

// The text and its version; nothing at all where there is no such text.
void run_kept(Service& service, const PendingReply& reply, const Call& call) {
  service.kept(call.name, [reply](const Result<std::optional<KeptText>>& kept) {
    if (!kept) return reply.fail(kept.error());
    std::string bytes;
    append_array(bytes, *kept ? 2 : 0);
    if (*kept) append_text(bytes, std::to_string((*kept)->version));
    if (*kept) append_text(bytes, (*kept)->text);
    reply.give(std::move(bytes));
  });
}

void run_keep(Service& service, const PendingReply& reply, const Call& call) {
  service.keep(call.keeps, [reply](const Result<std::optional<std::uint64_t>>& version) {
    if (!version) return reply.fail(version.error());
    reply.text(*version ? "kept " + std::to_string(**version) : "changed");
  });
}

std::string status_reply(const CommandContext& context, const Connection& connection) {
  const Greeting& greeting = context.greeting();
  const Service::State state = context.state(connection);
  const auto up =
      std::chrono::duration_cast<std::chrono::seconds>(base::BootClock::now() - greeting.started);
  const std::pair<std::string_view, std::string> fields[] = {
      {"version", greeting.version},
      {"journal", greeting.journal},
      {"journal_id", context.journal_id(connection)},
      {"place", greeting.place},
      {"term", context.term(connection)},
      {"shard", std::to_string(connection.shard)},
      {"shards", std::to_string(context.shards())},
      {"users", context.has_users() ? "1" : "0"},
      {"pid", std::to_string(::getpid())},
      {"uptime_s", std::to_string(up.count())},
      {"connections", std::to_string(context.connections())},
      {"holders", std::to_string(state.holders)},
      {"waiters", std::to_string(state.waiters)},
      {"uncommitted_bytes", std::to_string(state.uncommitted)},
      {"full", state.full ? "1" : "0"},
      {"quiet_s", std::to_string(std::chrono::ceil<std::chrono::seconds>(state.quiet).count())},
      {"journal_bytes", std::to_string(state.disk.journal)},
      {"disk_free_bytes", std::to_string(state.disk.free)},
      {"disk_size_bytes", std::to_string(state.disk.size)},
      {"unix_ms", std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(
                                     base::wall_now().time_since_epoch())
                                     .count())}};
  std::string bytes;
  append_array(bytes, 2 * std::size(fields));
  for (const auto& [name, value] : fields) {
    append_text(bytes, name);
    append_text(bytes, value);
  }
  return bytes;
}

// nullopt: the call as a whole is allowed.
std::optional<Error> refuse_call(Connection& connection, const Call& call) {
  if (!connection.has_limits()) return std::nullopt;
  const AccountPtr& account = connection.account;
  switch (call.op) {
    case Op::kKeep:
      if (auto denied = refuse(account, Right::kAcquire, call.name)) return denied;
      return connection.refuse_rate();
    case Op::kInspect:
    case Op::kKept:
    case Op::kValue:
      if (auto denied = refuse(account, Right::kObserve, call.name)) return denied;
      return connection.refuse_rate();
    case Op::kList:
    case Op::kWatch:
      if (auto denied = refuse_all(account, call.name)) return denied;
      return connection.refuse_rate();
    case Op::kStatus:
    case Op::kAttach:
    case Op::kRenew: return std::nullopt;  // A renewal's locks are looked at one by one.
    case Op::kAcquire:
    case Op::kEnd:
    case Op::kBreak:
    case Op::kResize:
    case Op::kSetValue:
      if (call.requests.size() > 1) return std::nullopt;  // The same.
      break;
    case Op::kAcquireAll:
    case Op::kDowngrade: break;
  }
  for (const Request& each : call.requests) {
    if (auto denied = refuse_right(account, call.op, each)) return denied;
  }
  return is_new(call.op) ? connection.refuse_rate(call.requests.size()) : std::nullopt;
}

// A name of another shard: the client spreads names in another way (safety rule 62). The kept texts
// are all in the first shard.
std::optional<Error> refuse_strays(port::ShardNumber shard, const Call& call) {
  if (shard.of == 1) return std::nullopt;
  const auto refusal = [&](std::string_view name, std::uint32_t right) -> std::optional<Error> {
    return Error(Errc::kUnsupported, "'" + std::string(name) + "' is of shard " +
                                         std::to_string(right) + ", and this connection of shard " +
                                         std::to_string(shard.number));
  };
  const auto of_lock = [&](std::string_view name) -> std::optional<Error> {
    const std::uint32_t right = port::shard_of(name, shard.of);
    return right == shard.number ? std::nullopt : refusal(name, right);
  };
  switch (call.op) {
    case Op::kKept:
    case Op::kKeep: return shard.number == 0 ? std::nullopt : refusal(call.name, 0);
    case Op::kInspect:
    case Op::kValue: return of_lock(call.name);
    case Op::kList:
    case Op::kWatch:
    case Op::kStatus:
    case Op::kAttach: return std::nullopt;
    case Op::kAcquire:
    case Op::kAcquireAll:
    case Op::kEnd:
    case Op::kRenew:
    case Op::kDowngrade:
    case Op::kBreak:
    case Op::kResize:
    case Op::kSetValue: break;
  }
  for (const Request& each : call.requests) {
    if (auto stray = of_lock(name_of(each.action))) return stray;
  }
  return std::nullopt;
}

}  // namespace

void attach(CommandContext& context, Connection& connection, std::uint32_t shard) {
  connection.attached = true;
  connection.shard = shard;
  std::string bytes;
  append_status(bytes, "HF1 " + context.journal_id(connection) + ' ' + std::to_string(shard) + ' ' +
                           context.term(connection));
  connection.reply(bytes);
}

void run_call(Service& service, CommandContext& context, Connection& connection,
              const Words& words) {
  auto call = read_call(words, connection.owners);
  if (!call) {
    // A client that names a shard began with a service that has several.
    const bool names_shard = words.size() == 4 && words[1] == "attach";
    const Error stray(Errc::kVersionMismatch, "this service has one shard, which is not named");
    std::string bytes;
    append_error(bytes, names_shard ? failure_text(stray) : "ERR " + call.error().message());
    return connection.reply(bytes);
  }
  if (call->op == Op::kStatus) return connection.reply(status_reply(context, connection));
  if (call->op == Op::kAttach) return attach(context, connection, 0);
  if (!connection.attached) {
    return connection.reply("-ERR attach first: this connection has not asked for the term\r\n");
  }
  const PendingReply reply(connection);
  const AccountPtr& account = connection.account;
  if (const auto stray = refuse_strays({connection.shard, context.shards()}, *call)) {
    return reply.fail(*stray);
  }
  if (const auto denied = refuse_call(connection, *call)) return reply.fail(*denied);
  if (account != nullptr) {
    for (Request& each : call->requests) each.user = account->user->name;
    call->keeps.user = account->user->name;
  }
  const bool named = !call->requests.empty() && !call->requests.front().client.empty();
  if (named) connection.client = call->requests.front().client;
  switch (call->op) {
    case Op::kAcquire: return run_acquire(service, context, reply, *call);
    case Op::kAcquireAll: return run_acquire_all(service, reply, *call);
    case Op::kRenew: return run_renew(service, context, reply, *call);
    case Op::kDowngrade: return run_downgrade(service, reply, *call);
    case Op::kEnd:
    case Op::kBreak:
    case Op::kResize:
    case Op::kSetValue: return run_each(service, context, reply, *call);
    case Op::kInspect:
      return connection.rest_after(run_inspect(service, context, reply, account, *call));
    case Op::kValue: return connection.rest_after(run_value(service, reply, *call));
    case Op::kKept: return run_kept(service, reply, *call);
    case Op::kKeep: return run_keep(service, reply, *call);
    case Op::kList: return connection.rest_after(run_list(service, reply, account, *call));
    case Op::kWatch: return reply.text(context.hears(call->after, call->name) ? "yes" : "no");
    case Op::kStatus:
    case Op::kAttach: break;
  }
}

}  // namespace holdfast::server
