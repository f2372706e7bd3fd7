#include "src/server/front/libraries/library_locks.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/detail/number.h"
#include "src/server/front/commands.h"
#include "src/server/front/libraries/library_owner.h"
#include "src/server/front/libraries/library_scripts.h"
#include "src/server/front/libraries/library_steps.h"
#include "src/server/front/libraries/sha1.h"
#include "src/server/id_numbers.h"

namespace holdfast::server {
namespace {

using machine::Duration;
using machine::Outcome;
using std::chrono::milliseconds;

void extend_one(Service& service, const PendingReply& reply, const std::string& name,
                const LibraryHolder& holder, Duration lease) {
  extend(service, reply, {name}, {holder}, lease,
         [reply](const std::vector<bool>& held) { give_integer(reply, held.front() ? 1 : 0); });
}

void release(Service& service, const PendingReply& reply, const std::string& name,
             const LibraryHolder& holder) {
  submit_each(service, reply, {release_request(name, holder)}, Outcome::kReleased,
              [reply](std::int64_t done) { give_integer(reply, done); });
}

std::string counted(std::size_t words) {
  return std::to_string(words) + (words == 1 ? " word" : " words");
}

struct Input {
  Service& service;
  UnlockAnswers& answers;
  Connection& connection;
  const Words& words;

  std::string_view word(std::size_t index) const {
    return index < words.size() ? words[index] : std::string_view();
  }
};

void set(const Input& input) {
  const PendingReply reply(input.connection);
  const std::string name(input.word(1));
  const auto value = read_value(input.word(2));
  if (!value) return reply.fail(value.error());
  bool only_new = false;
  std::optional<Duration> lease;
  for (std::size_t i = 3; i < input.words.size(); ++i) {
    const std::string option = command_word(input.word(i));
    if (option == "NX") {
      only_new = true;
    } else if (option == "PX" || option == "EX") {
      if (lease) return reply.fail(refusal("SET: a lock has one timeout: PX or EX, once"));
      if (i + 1 == input.words.size()) {
        return reply.fail(refusal("SET: " + option + " needs a number behind it"));
      }
      auto length = read_lease(input.word(++i), milliseconds(option == "PX" ? 1 : 1000));
      if (!length) return reply.fail(length.error());
      lease = *length;
    } else {
      return reply.fail(refusal("SET: this is a lock service, which has no option '" + option +
                                "': it takes NX, and PX or EX"));
    }
  }
  if (!only_new) {
    return reply.fail(refusal("SET without NX would take a lock that another holds"));
  }
  if (!lease) {
    return reply.fail(
        refusal("SET without PX or EX would hold the lock for ever: give the lock a timeout"));
  }
  take(input.service, reply, {name}, owner_of_value(input.connection, *value), *lease,
       [reply](bool took) { took ? give_ok(reply) : give_nothing(reply); });
}

void get(const Input& input) {
  const PendingReply reply(input.connection);
  look(input.service, reply, std::string(input.word(1)), [reply](const MaybeHolder& seen) {
    if (!seen) return give_nothing(reply);
    if (!seen->by_value) return reply.text("held by a client of Holdfast");
    const bool its = may_see_owner(reply.connection().account, seen->owner);
    reply.text(its ? seen->value : "held by another user");
  });
}

void exists(const Input& input) {
  const PendingReply reply(input.connection);
  const LockNames names(input.words.begin() + 1, input.words.end());
  look(input.service, reply, names, [reply](const std::vector<MaybeHolder>& seen) {
    give_integer(reply, std::count_if(seen.begin(), seen.end(),
                                      [](const auto& each) { return each.has_value(); }));
  });
}

void pttl(const Input& input) {
  const PendingReply reply(input.connection);
  look(input.service, reply, std::string(input.word(1)),
       [reply](const MaybeHolder& seen) { give_integer(reply, seen ? seen->left_ms() : -2); });
}

void pexpire(const Input& input) {
  const PendingReply reply(input.connection);
  const auto lease = read_lease(input.word(2));
  if (!lease) return reply.fail(lease.error());
  if (input.words.size() > 3) return reply.fail(refusal("PEXPIRE takes no option here"));
  Service& service = input.service;
  const std::string name(input.word(1));
  look(service, reply, name, [&service, reply, name, lease = *lease](const MaybeHolder& seen) {
    if (!seen) return give_integer(reply, 0);
    if (!seen->by_value) return reply.fail(held_by_own_client(name));
    extend_one(service, reply, name, *seen, lease);
  });
}

void del(const Input& input) {
  const PendingReply reply(input.connection);
  const LockNames names(input.words.begin() + 1, input.words.end());
  Service& service = input.service;
  look(service, reply, names, [&service, reply, names](const std::vector<MaybeHolder>& seen) {
    std::vector<Request> requests;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!seen[i]) continue;
      if (!seen[i]->by_value) return reply.fail(held_by_own_client(names[i]));
      // The holder itself gives back what was taken here.
      requests.push_back(reply.connection().has_taken(seen[i]->id)
                             ? release_request(names[i], *seen[i])
                             : break_request(reply, names[i], *seen[i], "DEL"));
    }
    submit_each(service, reply, requests, Outcome::kReleased,
                [reply](std::int64_t done) { give_integer(reply, done); });
  });
}

// --- Scripts.

struct ScriptCall {
  const LibraryScript& script;
  LockNames names;
  std::string value;
  Duration lease{};
  bool adds = false;       // To the time that is left.
  std::size_t prefix = 0;  // So much of the value tells the holder.
};

Result<ScriptCall> read_script_call(const LibraryScript& script, const Input& input) {
  using Does = LibraryScript::Does;
  const auto keys = detail::parse_number<std::size_t>(input.word(2));
  if (!keys || *keys == 0 || *keys > input.words.size() || (*keys > 1 && script.keys == 1) ||
      input.words.size() != 3 + *keys + script.words) {
    return refusal("this script of " + std::string(script.library) + " takes " +
                   (script.keys == 1 ? "1 key" : "keys") + " and " + counted(script.words) +
                   " behind " + (script.keys == 1 ? "it" : "them"));
  }
  Result<ScriptCall> made = ScriptCall{script, {}, {}};
  for (std::size_t i = 0; i < *keys; ++i) made->names.emplace_back(input.word(3 + i));
  const std::size_t first = 3 + *keys;
  auto value = read_value(input.word(first));
  if (!value) return value.error();
  made->value = *std::move(value);
  // The whole value names the holder, unless the library says how long its token in front is.
  made->prefix = made->value.size();
  if (script.does == Does::kTakeOrKeep) {
    const auto size = detail::parse_number<std::size_t>(input.word(first + 1));
    if (!size || *size > made->value.size())
      return refusal("the length of the token is no such length");
    made->prefix = *size;
  }
  if (script.words > 1) {
    const std::size_t at = script.does == Does::kTakeOrKeep ? first + 2 : first + 1;
    auto lease = read_lease(input.word(at));
    if (!lease) return lease.error();
    made->lease = *lease;
  }
  made->adds = script.does == Does::kExtend && script.words == 3 && input.word(first + 2) == "0";
  return made;
}

void run_on_one(const Input& input, const PendingReply& reply, const ScriptCall& call) {
  using Does = LibraryScript::Does;
  Service& service = input.service;
  // Each step names the acquisition that this look has found. If that has ended meanwhile, the step
  // changes nothing.
  const machine::OwnerPtr owner = owner_of_value(input.connection, call.value);
  look(service, reply, call.names.front(), [=, &service](const MaybeHolder& seen) {
    const std::string& name = call.names.front();
    const bool kept = seen && seen->by_value && call.script.does == Does::kTakeOrKeep &&
                      seen->value.substr(0, call.prefix) == call.value.substr(0, call.prefix);
    if (kept) {
      return extend(service, reply, {name}, {*seen}, call.lease,
                    [reply](const std::vector<bool>& held) {
                      held.front() ? give_ok(reply) : give_nothing(reply);
                    });
    }
    if (call.script.does == Does::kTakeOrKeep) {
      if (seen) return give_nothing(reply);
      return take(service, reply, {name}, owner, call.lease,
                  [reply](bool took) { took ? give_ok(reply) : give_nothing(reply); });
    }
    if (!seen && call.script.does == Does::kExtendOrTake) {
      return take(service, reply, {name}, owner, call.lease,
                  [reply](bool took) { give_integer(reply, took ? 1 : 0); });
    }
    if (!seen) return give_integer(reply, call.script.when_free);
    if (!seen->is(call.value)) return give_integer(reply, call.script.when_others);
    switch (call.script.does) {
      case Does::kRelease: return release(service, reply, name, *seen);
      case Does::kTimeLeft: return give_integer(reply, seen->left_ms());
      default: break;
    }
    const Duration before = call.adds ? std::max(seen->left, Duration::zero()) : Duration::zero();
    extend_one(service, reply, name, *seen,
               std::min<Duration>(before + call.lease, kLongestLease));
  });
}

void run_on_all(const Input& input, const PendingReply& reply, const ScriptCall& call) {
  using Does = LibraryScript::Does;
  Service& service = input.service;
  const auto count = static_cast<std::int64_t>(call.names.size());
  if (call.script.does == Does::kTakeAll) {
    return take(service, reply, call.names, owner_of_value(input.connection, call.value),
                call.lease, [reply, count](bool took) { give_integer(reply, took ? count : 0); });
  }
  look(service, reply, call.names, [=, &service](const std::vector<MaybeHolder>& seen) {
    const bool extends = call.script.does == Does::kExtendAll;
    std::vector<Request> releases;
    std::vector<LibraryHolder> holders;
    for (std::size_t i = 0; i < call.names.size(); ++i) {
      const bool holds = seen[i] && seen[i]->is(call.value);
      if (extends && !holds) return give_integer(reply, 0);
      if (extends) holders.push_back(*seen[i]);
      if (!extends && holds) releases.push_back(release_request(call.names[i], *seen[i]));
    }
    if (!extends) {
      return submit_each(service, reply, releases, Outcome::kReleased,
                         [reply](std::int64_t done) { give_integer(reply, done); });
    }
    extend(service, reply, call.names, holders, call.lease,
           [reply, count](const std::vector<bool>& held) {
             const bool all = std::find(held.begin(), held.end(), false) == held.end();
             give_integer(reply, all ? count : 0);
           });
  });
}

void run_script(const Input& input, const LibraryScript& script) {
  if (script.does >= LibraryScript::Does::kRedissonTake) {
    return run_redisson_script(input.service, input.answers, input.connection, script, input.words);
  }
  const PendingReply reply(input.connection);
  const auto call = read_script_call(script, input);
  if (!call) return reply.fail(call.error());
  script.keys == 1 ? run_on_one(input, reply, *call) : run_on_all(input, reply, *call);
}

struct RedissonObject {
  std::string_view sign;  // A part of its scripts, or of their keys.
  std::string_view name;
};
// The first sign that is found counts. SCRIPT LOAD has no keys, so each object needs a sign in the
// text of the script that it begins with.
constexpr RedissonObject kRedissonObjects[] = {
    {"return redis.error_reply(ARGV[", "RNonReentrantLock"},
    {"firstThreadId2", "RFairLock"},
    {"redisson_lock_queue:", "RFairLock"},
    {"redisson_lock_timeout:", "RFairLock"},
    {"redis.call('incr', KEYS[2]);redis.call('hincrby'", "RFencedLock"},
    {"redisson_lock_token:", "RFencedLock"},
    {"return nil; end; if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then redis.call('hincrby'",
     "RSpinLock (or of an RLock of older versions)"},
    {":rwlock_timeout", "RReadWriteLock"},
    {"redisson_rwlock:", "RReadWriteLock"},
    {"local mode = redis.call('hget', KEYS[1], 'mode')", "RReadWriteLock"},
    {"KEYS[1], 'mode') == '", "RReadWriteLock"},
    {"..':expire_time'", "FasterMultiLock"},
    {"if ARGV[2] ~= '' then expireSet", "RExpirable, which its RMultiLock uses with a lease time"},
    {"expiredIds", "RPermitExpirableSemaphore"},
    {"redis.call(ARGV[2], KEYS[2], ARGV[1]); return 1;end;return 0;",
     "RSemaphore or RPermitExpirableSemaphore"},
    {"then value = 0;end;redis.call('set', KEYS[1]", "RSemaphore or RPermitExpirableSemaphore"},
    {"local val = redis.call('decrby', KEYS[1], ARGV[1])", "RSemaphore"},
    {"redis.call(ARGV[2], KEYS[2], value)", "RSemaphore"},
    {"redisson_sc:", "RSemaphore"},
    {"redis.call('set', KEYS[1], ARGV[2]); redis.call(ARGV[3], KEYS[2]", "RCountDownLatch"},
    {"if v == 0 then redis.call(ARGV[2], KEYS[2], ARGV[1])", "RCountDownLatch"},
    {"redisson_countdownlatch", "RCountDownLatch"}};

// `words`: the text of the script and all that comes with it.
void refuse_unknown(const PendingReply& reply, const std::string& sha1, const Words& words) {
  for (const RedissonObject& each : kRedissonObjects) {
    const bool its = std::any_of(words.begin(), words.end(), [&](std::string_view word) {
      return word.find(each.sign) != word.npos;
    });
    if (!its) continue;
    return reply.fail(refusal("the script " + sha1 + " is of Redisson's " + std::string(each.name) +
                              ", and this service serves its RLock only: use that, or the lock of "
                              "a Holdfast client"));
  }
  reply.fail(refusal("the script " + sha1 +
                     " is of no lock library that this service knows: it holds locks only, so keep "
                     "data and other scripts in a Redis"));
}

void eval(const Input& input) {
  const std::string sha1 = sha1_hex(input.word(1));
  const LibraryScript* const known = find_script(sha1);
  known == nullptr ? refuse_unknown(PendingReply(input.connection), sha1, input.words)
                   : run_script(input, *known);
}

void evalsha(const Input& input) {
  const LibraryScript* const known = find_script(input.word(1));
  if (known != nullptr) return run_script(input, *known);
  // The libraries then send the text, whose refusal says more.
  input.connection.reply("-NOSCRIPT No matching script. Please use EVAL.\r\n");
}

void script(const Input& input) {
  const std::string what = command_word(input.word(1));
  const PendingReply reply(input.connection);
  if (what == "LOAD") {
    const std::string sha1 = sha1_hex(input.word(2));
    return find_script(sha1) == nullptr ? refuse_unknown(reply, sha1, input.words)
                                        : reply.text(sha1);
  }
  if (what != "EXISTS") return reply.fail(refusal("SCRIPT has LOAD and EXISTS only"));
  std::string bytes;
  append_array(bytes, input.words.size() - 2);
  for (std::size_t i = 2; i < input.words.size(); ++i) {
    append_integer(bytes, find_script(input.word(i)) == nullptr ? 0 : 1);
  }
  reply.give(std::move(bytes));
}

void hexists(const Input& input) {
  run_redisson_question(input.service, input.connection, input.words, /*counts=*/false);
}

void hget(const Input& input) {
  run_redisson_question(input.service, input.connection, input.words, /*counts=*/true);
}

enum class NamesLocks { kNone, kOne, kAll, kOfScript };

// Numbers of the ids of that name, which are made explicitly. The reply is the last one, as Redis
// has it.
void incr(const Input& input) {
  constexpr std::string_view kIds = "ids/";
  const PendingReply reply(input.connection);
  if (!input.word(1).starts_with(kIds)) {
    return reply.fail(refusal("INCR gives ids only: its key is ids/NAME"));
  }
  const auto count = detail::parse_number<std::uint64_t>(
      input.words.size() > 2 ? input.word(2) : std::string_view("1"));
  if (!count) return reply.fail(refusal("INCRBY takes a whole number above zero"));
  take_numbers(input.service, std::string(input.word(1).substr(kIds.size())), *count,
               /*as_range=*/true, reply.user(), [reply](const Result<IdNumbers>& taken) {
                 if (!taken) return reply.fail(taken.error());
                 give_integer(reply, static_cast<std::int64_t>(taken->last()));
               });
}

struct LibraryCommand {
  std::string_view name;
  std::size_t least_words;
  std::size_t most_words;
  void (*run)(const Input&);
  NamesLocks names;
  Right right;  // To each of its keys.
};
constexpr std::size_t kMostWords = 130;
constexpr LibraryCommand kLibraryCommands[] = {
    {"SET", 3, 16, set, NamesLocks::kOne, Right::kAcquire},
    {"GET", 2, 2, get, NamesLocks::kOne, Right::kObserve},
    {"DEL", 2, kMostWords, del, NamesLocks::kAll, Right::kBreak},
    {"EXISTS", 2, kMostWords, exists, NamesLocks::kAll, Right::kObserve},
    {"PTTL", 2, 2, pttl, NamesLocks::kOne, Right::kObserve},
    {"PEXPIRE", 3, 4, pexpire, NamesLocks::kOne, Right::kAcquire},
    {"EVAL", 3, kMostWords, eval, NamesLocks::kOfScript, Right::kAcquire},
    {"EVALSHA", 3, kMostWords, evalsha, NamesLocks::kOfScript, Right::kAcquire},
    {"SCRIPT", 3, kMostWords, script, NamesLocks::kNone, Right::kObserve},
    {"HEXISTS", 3, 3, hexists, NamesLocks::kOne, Right::kObserve},
    {"HGET", 3, 3, hget, NamesLocks::kOne, Right::kObserve},
    {"INCR", 2, 2, incr, NamesLocks::kOne, Right::kAcquire},
    {"INCRBY", 3, 3, incr, NamesLocks::kOne, Right::kAcquire},
};

// The keys of a script that are locks. Redisson gives channels and names of answers as keys, too.
std::size_t count_locks(const LibraryScript& script, std::size_t keys) {
  const bool redisson = script.does >= LibraryScript::Does::kRedissonTake;
  return redisson && script.keys != LibraryScript::kMany ? 1 : keys;
}

bool takes_or_looks(const LibraryScript& script) {
  using Does = LibraryScript::Does;
  constexpr Does kCounted[] = {Does::kExtendOrTake, Does::kTimeLeft, Does::kTakeOrKeep,
                               Does::kTakeAll, Does::kRedissonTake};
  return std::find(std::begin(kCounted), std::end(kCounted), script.does) != std::end(kCounted);
}

// A script that is not known, or whose keys are wrong, is refused later. It names no lock here.
struct ScriptLocks {
  const LibraryScript* script = nullptr;
  std::vector<std::string_view> locks{};
};
ScriptLocks locks_of_script(const Words& words) {
  const bool by_text = command_word(words[0]) == "EVAL";
  const LibraryScript* const known = find_script(by_text ? sha1_hex(words[1]) : words[1]);
  const auto keys = detail::parse_number<std::size_t>(words[2]);
  if (known == nullptr || !keys || *keys > words.size() - 3) return {};
  const auto first = words.begin() + 3;
  const auto count = static_cast<std::ptrdiff_t>(std::min(*keys, count_locks(*known, *keys)));
  return {known, {first, first + count}};
}

std::optional<Error> refuse_script(Connection& connection, const Words& words) {
  const auto [known, locks] = locks_of_script(words);
  if (known == nullptr) return std::nullopt;
  const bool forces = known->does == LibraryScript::Does::kRedissonForce;
  const Right right = forces ? Right::kBreak : Right::kAcquire;
  for (const std::string_view each : locks) {
    if (auto denied = refuse(connection.account, right, each)) return denied;
  }
  if (!takes_or_looks(*known)) return std::nullopt;
  return connection.refuse_rate(locks.size());
}

std::optional<Error> refuse_command(Connection& connection, const LibraryCommand& command,
                                    const Words& words) {
  if (!connection.has_limits() || command.names == NamesLocks::kNone) return std::nullopt;
  if (command.names == NamesLocks::kOfScript) return refuse_script(connection, words);
  const std::size_t end = command.names == NamesLocks::kOne ? 2 : words.size();
  for (std::size_t i = 1; i < end; ++i) {
    if (auto denied = refuse(connection.account, command.right, words[i])) return denied;
  }
  const bool counts =
      command.right == Right::kObserve || command.name == "SET" || command.name.starts_with("INCR");
  return counts ? connection.refuse_rate(end - 1) : std::nullopt;
}

const LibraryCommand* find_command(std::string_view name) {
  const auto* const row =
      std::find_if(std::begin(kLibraryCommands), std::end(kLibraryCommands),
                   [&](const LibraryCommand& each) { return each.name == name; });
  return row == std::end(kLibraryCommands) ? nullptr : row;
}

bool has_right_length(const LibraryCommand& command, const Words& words) {
  return words.size() >= command.least_words && words.size() <= command.most_words;
}

Error wrong_length(const LibraryCommand& command, std::size_t words) {
  const std::size_t least = command.least_words - 1;
  const std::size_t most = command.most_words - 1;
  const std::size_t given = words - 1;
  const bool many = given > most && most == kMostWords - 1;
  return refusal("'" + std::string(command.name) + "' takes " +
                 (least < most ? std::to_string(least) + " to " : "") + counted(most) +
                 ", and has " + std::to_string(given) + " here" +
                 (many ? ": spread its names over several commands" : ""));
}

// Where the length of a lease is; 0: the command names none, or is refused later.
std::size_t place_of_lease(const LibraryCommand& command, const Words& words) {
  using Does = LibraryScript::Does;
  if (command.name == "PEXPIRE") return 2;
  if (command.names != NamesLocks::kOfScript) return 0;
  const LibraryScript* const known = locks_of_script(words).script;
  if (known == nullptr) return 0;
  const std::size_t first = 3 + detail::parse_number<std::size_t>(words[2]).value_or(0);
  switch (known->does) {
    case Does::kRedissonTake:
    case Does::kRedissonRenew: return first;
    case Does::kTakeOrKeep: return first + 2;
    case Does::kRedissonUnlock: return first + 1;
    case Does::kRedissonForce: return 0;
    default: return known->words > 1 ? first + 1 : 0;
  }
}

milliseconds lease_of(const LibraryCommand& command, const Words& words) {
  std::size_t place = place_of_lease(command, words);
  milliseconds unit(1);
  for (std::size_t i = 3; command.name == "SET" && i + 1 < words.size(); ++i) {
    const std::string option = command_word(words[i]);
    if (option != "PX" && option != "EX") continue;
    place = i + 1;
    if (option == "EX") unit = milliseconds(1000);
  }
  const auto lease = place > 0 && place < words.size() ? read_lease(words[place], unit)
                                                       : Result<Duration>(kLongestLease);
  return std::chrono::floor<milliseconds>(lease ? *lease : kLongestLease);
}

}  // namespace

LibraryTarget library_target(const Words& words) {
  const LibraryCommand* const row = find_command(command_word(words.front()));
  LibraryTarget target{row != nullptr, row != nullptr && row->name.starts_with("INCR")};
  if (row == nullptr || target.is_ids || !has_right_length(*row, words)) return target;
  switch (row->names) {
    case NamesLocks::kNone: break;
    case NamesLocks::kOne: target.locks = {words[1]}; break;
    case NamesLocks::kAll: target.locks = {words.begin() + 1, words.end()}; break;
    case NamesLocks::kOfScript: target.locks = locks_of_script(words).locks; break;
  }
  return target;
}

milliseconds library_lease(const Words& words) {
  const LibraryCommand* const row = find_command(command_word(words.front()));
  const bool whole = row != nullptr && has_right_length(*row, words);
  return whole ? lease_of(*row, words) : std::chrono::floor<milliseconds>(kLongestLease);
}

bool run_library_command(Service& service, UnlockAnswers& answers, Connection& connection,
                         const Words& words) {
  const std::string name = command_word(words.front());
  const LibraryCommand* const row = find_command(name);
  if (row == nullptr) return false;
  if (!has_right_length(*row, words)) {
    PendingReply(connection).fail(wrong_length(*row, words.size()));
  } else if (const auto denied = refuse_command(connection, *row, words)) {
    PendingReply(connection).fail(*denied);
  } else {
    row->run({service, answers, connection, words});
  }
  return true;
}

}  // namespace holdfast::server
