#include "src/server/front/operator_calls.h"

#include <chrono>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/server/front/pending_reply.h"
#include "src/server/front/reply_writer.h"

namespace holdfast::server {
namespace {

void append_member(std::string& out, const ServerMember& member) {
  const auto since =
      std::chrono::duration_cast<std::chrono::milliseconds>(member.since.time_since_epoch());
  const std::pair<std::string_view, std::string> fields[] = {
      {"address", member.address},
      {"version", member.version},
      {"leads", member.leads ? "1" : "0"},
      {"shards", std::to_string(member.shards)},
      {"http", member.http},
      {"since", std::to_string(since.count())}};
  append_array(out, 2 * std::size(fields));
  for (const auto& [name, value] : fields) {
    append_text(out, name);
    append_text(out, value);
  }
}

void run_members(CommandContext& context, const PendingReply& reply) {
  context.list_members([reply](const Result<std::vector<ServerMember>>& found) {
    if (!found) return reply.fail(found.error());
    std::string bytes;
    append_array(bytes, found->size());
    for (const ServerMember& each : *found) append_member(bytes, each);
    reply.give(std::move(bytes));
  });
}

void run_examine(CommandContext& context, const PendingReply& reply) {
  context.examine_journal([reply](const Result<std::vector<Finding>>& found) {
    if (!found) return reply.fail(found.error());
    std::string bytes;
    append_array(bytes, 4 * found->size());
    for (const Finding& each : *found) {
      append_text(bytes, std::to_string(static_cast<int>(each.severity)));
      append_text(bytes, each.topic);
      append_text(bytes, each.what);
      append_text(bytes, each.advice);
    }
    reply.give(std::move(bytes));
  });
}

void run_step_down(CommandContext& context, const PendingReply& reply) {
  if (const auto done = context.step_down(); !done) return reply.fail(done.error());
  std::string bytes;
  append_status(bytes, "OK");
  reply.give(std::move(bytes));
}

void run_drain(CommandContext& context, Connection& connection, const PendingReply& reply) {
  const std::string who =
      connection.account == nullptr ? "" : "user '" + connection.account->user->name + "' at ";
  if (!context.drain(who + connection.address)) {
    return reply.fail(Error(Errc::kUnsupported,
                            "the program that runs this server cannot be stopped from outside"));
  }
  std::string bytes;
  append_status(bytes, "OK");
  reply.give(std::move(bytes));
}

}  // namespace

bool run_operator_call(CommandContext& context, Connection& connection, const Words& words) {
  if (words.size() != 3 || words[0] != "HF1" || words[2] != "0") return false;
  if (words[1] == "forwarded") {
    // Said by another server. Anybody may, because it only takes something away.
    connection.forwarded = true;
    connection.reply("+OK\r\n");
    return true;
  }
  if (words[1] == "examine") {
    const PendingReply reply(connection);
    const auto often = connection.refuse_rate();
    often ? reply.fail(*often) : run_examine(context, reply);
    return true;
  }
  const bool members = words[1] == "members";
  const bool steps_down = words[1] == "step_down" && (context.leads() || context.shards() > 1);
  if (!members && !steps_down && words[1] != "drain") return false;
  const PendingReply reply(connection);
  if (const auto denied = refuse_operator(connection.account)) {
    reply.fail(*denied);
  } else if (members) {
    run_members(context, reply);
  } else if (steps_down) {
    run_step_down(context, reply);
  } else {
    run_drain(context, connection, reply);
  }
  return true;
}

}  // namespace holdfast::server
