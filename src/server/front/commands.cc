#include "src/server/front/commands.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/detail/number.h"
#include "src/server/front/libraries/library_locks.h"
#include "src/server/front/pending_reply.h"
#include "src/server/front/reply_writer.h"

namespace holdfast::server {
namespace {

constexpr std::size_t kLongestLabel = 128;  // A connection's.

// These commands have an equivalent here, or a reason why there is none.
constexpr const char* kNoTransactions =
    "there are no transactions, and each command is one step: send it alone";
constexpr std::pair<std::string_view, const char*> kNotHere[] = {
    {"MULTI", kNoTransactions},
    {"EXEC", kNoTransactions},
    {"DISCARD", kNoTransactions},
    {"WATCH", kNoTransactions},
    {"UNWATCH", kNoTransactions},
    {"SETNX", "take a lock by SET NAME VALUE NX PX MILLISECONDS"},
    {"SETEX", "take a lock by SET NAME VALUE NX PX MILLISECONDS"},
    {"EXPIRE", "a lease is extended by PEXPIRE NAME MILLISECONDS"},
    {"PERSIST", "no lock is held for ever: extend its lease by PEXPIRE"},
    {"TTL", "use PTTL"},
    {"UNLINK", "use DEL"}};

struct CommandInput {
  CommandContext& context;
  Connection& connection;
  const Words& words;

  std::string_view word(std::size_t index) const {
    return index < words.size() ? words[index] : std::string_view();
  }
};

void fail(const CommandInput& input, const std::string& why) {
  std::string bytes;
  append_error(bytes, why);
  input.connection.reply(bytes);
}

void succeed(const CommandInput& input) { input.connection.reply("+OK\r\n"); }

void refuse(const CommandInput& input, const std::string& command) {
  const bool leader_has_it =
      command == "HF1" || command == "WAIT" || library_target(input.words).is_known;
  if (leader_has_it && input.context.shards() == 1 && !input.context.leads()) {
    const std::string leader = input.context.leader();
    return fail(input, "STANDBY this server stands by: " +
                           (leader.empty()
                                ? "no server leads yet; retry"
                                : leader + " was last seen leading; name all servers in the URL, "
                                           "holdfast://A,B,C"));
  }
  const auto* const known = std::find_if(std::begin(kNotHere), std::end(kNotHere),
                                         [&](const auto& each) { return each.first == command; });
  fail(input, "ERR unknown command '" + command + "': " +
                  (known == std::end(kNotHere) ? "Holdfast's lock service has no such command"
                                               : known->second) +
                  "; see docs/stores/holdfast.md");
}

// The names and values of a reply, as a map in version 3 and as an array in version 2.
void append_map(std::string& out, int protocol, std::size_t pairs) {
  append_head(out, protocol == 3 ? '%' : '*', protocol == 3 ? pairs : 2 * pairs);
}

std::string greeting_of(const CommandContext& context, const Connection& connection) {
  std::string bytes;
  append_map(bytes, connection.protocol, 7);
  const std::pair<std::string_view, std::string_view> texts[] = {
      {"server", "holdfast"},
      {"version", context.greeting().version},
      {"mode", "standalone"},
      {"role", context.leads() ? "master" : "replica"}};
  for (const auto& [name, value] : texts) {
    append_text(bytes, name);
    append_text(bytes, value);
  }
  append_text(bytes, "proto");
  append_integer(bytes, connection.protocol);
  append_text(bytes, "id");
  append_integer(bytes, static_cast<std::int64_t>(connection.number));
  append_text(bytes, "modules");
  append_array(bytes, 0);
  return bytes;
}

bool must_log_in(const CommandInput& input) {
  return input.context.has_users() && input.connection.account == nullptr;
}

constexpr const char* kNoAuth =
    "NOAUTH Authentication required: log in with AUTH and a user and password";

// `then` makes the reply to a log-in that succeeded.
void log_in(const CommandInput& input, const std::string& user, const std::string& password,
            std::function<std::string()> then) {
  if (!input.context.has_users()) {
    return fail(input, "ERR AUTH: this server has no users; connect without a log-in");
  }
  const PendingReply reply(input.connection);
  const auto connection = input.connection.shared_from_this();
  input.context.log_in(
      *connection, user, password,
      [reply, connection, then = std::move(then)](const Result<void>& done) {
        if (done) return reply.give(then());
        const bool wrong = done.error().code() == Errc::kPermissionDenied;
        std::string bytes;
        append_error(bytes, (wrong ? "WRONGPASS " : "OVERLOADED ") + done.error().message());
        reply.give(std::move(bytes));
        connection->close_after_replies();
      });
}

void hello(const CommandInput& input) {
  Connection& connection = input.connection;
  std::optional<std::pair<std::string, std::string>> login;
  std::string label = connection.name;
  int protocol = connection.protocol;
  if (input.words.size() > 1) {
    const std::string_view version = input.word(1);
    if (version != "2" && version != "3") {
      return fail(input, "NOPROTO unsupported protocol version");
    }
    protocol = version == "3" ? 3 : 2;
    for (std::size_t at = 2; at < input.words.size(); ++at) {
      const std::string option = command_word(input.word(at));
      if (option == "SETNAME" && input.word(at + 1).size() <= kLongestLabel) {
        label = input.word(++at);
      } else if (option == "AUTH" && at + 2 < input.words.size()) {
        login.emplace(input.word(at + 1), input.word(at + 2));
        at += 2;
      } else {
        return fail(input, "ERR HELLO: no such option: " + option);
      }
    }
  }
  if (!login && must_log_in(input)) return fail(input, kNoAuth);
  const auto finish = [&context = input.context, own = connection.shared_from_this(), protocol,
                       label] {
    own->protocol = protocol;
    own->name = label;
    return greeting_of(context, *own);
  };
  login ? log_in(input, login->first, login->second, finish) : connection.reply(finish());
}

void ping(const CommandInput& input) {
  std::string bytes;
  const bool listens = input.connection.subscriptions() > 0;
  if (listens && input.connection.protocol == 2) {
    append_array(bytes, 2);
    append_text(bytes, "pong");
    append_text(bytes, input.word(1));
  } else if (input.words.size() > 1) {
    append_text(bytes, input.word(1));
  } else {
    append_status(bytes, "PONG");
  }
  input.connection.reply(bytes);
}

void echo(const CommandInput& input) {
  std::string bytes;
  append_text(bytes, input.word(1));
  input.connection.reply(bytes);
}

void quit(const CommandInput& input) {
  succeed(input);
  input.connection.close_after_replies();
}

void select(const CommandInput& input) {
  if (input.word(1) != "0") return fail(input, "ERR DB index is out of range: there is 0 only");
  succeed(input);
}

// The connection's earlier grants were answered after their commits, so they are on these copies
// already, and waiting would not change that.
void wait_for_replicas(const CommandInput& input) {
  if (input.context.shards() == 1 && !input.context.leads()) return refuse(input, "WAIT");
  const auto replicas = detail::parse_number<std::int64_t>(input.word(1));
  const auto timeout = detail::parse_number<std::int64_t>(input.word(2));
  if (input.words.size() != 3 || !replicas || !timeout) {
    return fail(input, "ERR WAIT takes a number of replicas and a timeout in milliseconds");
  }
  std::string bytes;
  append_integer(bytes, static_cast<std::int64_t>(input.context.copies()));
  input.connection.reply(bytes);
}

void auth(const CommandInput& input) {
  if (input.words.size() != 3 && input.context.has_users()) {
    return fail(input, "ERR AUTH takes a user and a password here");
  }
  log_in(input, std::string(input.word(1)), std::string(input.word(2)), [] { return "+OK\r\n"; });
}

void client(const CommandInput& input) {
  Connection& connection = input.connection;
  const std::string what = command_word(input.word(1));
  std::string bytes;
  if (what == "SETNAME") {
    if (input.word(2).size() > kLongestLabel) return fail(input, "ERR the name is too long");
    connection.name = input.word(2);
    return succeed(input);
  }
  if (what == "SETINFO") return succeed(input);
  if (what == "ID") {
    append_integer(bytes, static_cast<std::int64_t>(connection.number));
  } else if (what == "GETNAME") {
    append_text(bytes, connection.name);
  } else {
    return refuse(input, "CLIENT " + what);
  }
  connection.reply(bytes);
}

void command(const CommandInput& input) {
  const std::string what = command_word(input.word(1));
  std::string bytes;
  if (what.empty() || what == "DOCS" || what == "LIST") {
    append_array(bytes, 0);
  } else if (what == "COUNT") {
    append_integer(bytes, 0);
  } else {
    return refuse(input, "COMMAND " + what);
  }
  input.connection.reply(bytes);
}

std::string list_of(const std::vector<std::uint32_t>& shards) {
  std::string list;
  for (const std::uint32_t each : shards) list += (list.empty() ? "" : ",") + std::to_string(each);
  return list;
}

std::string state_lines(const Service::State& state, bool one) {
  const auto quiet = std::chrono::ceil<std::chrono::seconds>(state.quiet);
  return "journal_answers:" + std::string(state.journal_answers ? "1" : "0") +
         "\r\njournal_full:" + (state.full ? "1" : "0") +
         "\r\nquiet_seconds:" + std::to_string(quiet.count()) +
         (one ? "" : "\r\nquiet_shards:" + list_of(state.quiet_shards)) +
         "\r\njournal_bytes:" + std::to_string(state.disk.journal) +
         "\r\ndisk_free_bytes:" + std::to_string(state.disk.free) +
         "\r\ndisk_size_bytes:" + std::to_string(state.disk.size) +
         "\r\nuncommitted_bytes:" + std::to_string(state.uncommitted) +
         "\r\n\r\n# Locks\r\nholders:" + std::to_string(state.holders) +
         "\r\nwaiters:" + std::to_string(state.waiters) + "\r\n";
}

void info(const CommandInput& input) {
  const CommandContext& context = input.context;
  const Connection& connection = input.connection;
  const auto up = std::chrono::duration_cast<std::chrono::seconds>(base::BootClock::now() -
                                                                   context.greeting().started);
  // INFO leaves out what would be empty or untrue: the leader where this server or several lead,
  // the journal of no one shard, the list of one.
  const bool one = context.shards() == 1;
  const auto line = [](const char* name, const std::string& value) {
    return value.empty() ? std::string() : "\r\n" + std::string(name) + ":" + value;
  };
  const std::string text =
      "# Server\r\nserver:holdfast\r\nholdfast_version:" + context.greeting().version +
      "\r\nprocess_id:" + std::to_string(::getpid()) +
      "\r\nuptime_in_seconds:" + std::to_string(up.count()) +
      "\r\n\r\n# Clients\r\nconnected_clients:" + std::to_string(context.connections()) +
      "\r\n\r\n# Journal\r\nleads:" + (context.leads() ? "1" : "0") +
      (one && !context.leads() ? "\r\nleader:" + context.leader() : "") +
      "\r\njournal:" + context.greeting().journal +
      line("journal_place", context.greeting().place) +
      line("journal_id", context.journal_id(connection)) + line("term", context.term(connection)) +
      "\r\nshards:" + std::to_string(context.shards()) +
      (one ? "" : "\r\nshards_led:" + list_of(context.led_shards())) +
      line("shard_leaders", context.shard_leaders()) + "\r\n" +
      state_lines(context.state(connection), one);
  std::string bytes;
  append_text(bytes, text);
  input.connection.reply(bytes);
}

void tell_subscription(const CommandInput& input, std::string_view kind, std::string_view channel) {
  std::string bytes;
  append_push(bytes, input.connection.protocol, 3);
  append_text(bytes, kind);
  append_text(bytes, channel);
  append_integer(bytes, static_cast<std::int64_t>(input.connection.subscriptions()));
  input.connection.reply(bytes);
}

void subscribe(const CommandInput& input) {
  if (input.words.size() < 2) return fail(input, "ERR SUBSCRIBE needs a channel");
  for (std::size_t i = 1; i < input.words.size(); ++i) {
    const std::string channel(input.word(i));
    if (const auto joined = input.context.subscribe(input.connection, channel); !joined) {
      return fail(input, failure_text(joined.error()));
    }
    tell_subscription(input, "subscribe", channel);
  }
}

void unsubscribe(const CommandInput& input) {
  std::vector<std::string> channels(input.words.begin() + 1, input.words.end());
  if (channels.empty()) {
    channels.assign(input.connection.channels.begin(), input.connection.channels.end());
  }
  for (const std::string& channel : channels) {
    input.context.unsubscribe(input.connection, channel);
    tell_subscription(input, "unsubscribe", channel);
  }
  if (channels.empty()) tell_subscription(input, "unsubscribe", "");
}

constexpr std::pair<std::string_view, void (*)(const CommandInput&)> kCommands[] = {
    {"HELLO", hello},
    {"PING", ping},
    {"ECHO", echo},
    {"QUIT", quit},
    {"SELECT", select},
    {"AUTH", auth},
    {"CLIENT", client},
    {"COMMAND", command},
    {"INFO", info},
    {"SUBSCRIBE", subscribe},
    {"UNSUBSCRIBE", unsubscribe},
    {"WAIT", wait_for_replicas},
};

}  // namespace

std::string command_word(std::string_view word) {
  std::string text(word.substr(0, 64));
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(c < ' ' || c >= 0x7f ? '?' : std::toupper(c));
  });
  return text;
}

void run_command(CommandContext& context, Connection& connection, const Words& words) {
  const CommandInput input{context, connection, words};
  const std::string name = command_word(words.front());
  if (must_log_in(input) && name != "HELLO" && name != "AUTH" && name != "QUIT") {
    return fail(input, kNoAuth);
  }
  const auto* const found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                         [&](const auto& each) { return each.first == name; });
  found == std::end(kCommands) ? refuse(input, name) : found->second(input);
}

}  // namespace holdfast::server
