#include "src/server/front/libraries/redisson_locks.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/detail/number.h"
#include "src/base/random.h"
#include "src/server/front/libraries/library_steps.h"

namespace holdfast::server {
namespace {

using machine::Duration;
using machine::Outcome;
using Does = LibraryScript::Does;

constexpr std::size_t kMostAnswers = 4'096;

// "redisson <acquisition> <count>". An earlier holder's text names another acquisition.
constexpr std::string_view kHead = "redisson ";
constexpr std::size_t kLongestLatch = 2'048;
constexpr std::chrono::milliseconds kLongestLatchTime = std::chrono::hours(24);

std::string count_text(const LibraryHolder& holder, std::int64_t count) {
  return std::string(kHead) + base::to_hex(holder.id.high, holder.id.low) + ' ' +
         std::to_string(count);
}

std::int64_t count_of(const LibraryHolder& holder) {
  const std::string head = count_text(holder, 0);
  const std::string_view text = holder.lock_value;
  const std::string_view begin = std::string_view(head).substr(0, head.size() - 1);
  if (!text.starts_with(begin)) return 1;
  return detail::parse_number<std::int64_t>(text.substr(begin.size())).value_or(1);
}

// How long an unlock may be sent again. Redisson gives 1 ms when it tries each command only once.
std::optional<Duration> read_latch_time(std::string_view text) {
  const auto number = detail::parse_number<std::int64_t>(text);
  if (!number || *number <= 0) return std::nullopt;
  return std::chrono::milliseconds(std::min(*number, kLongestLatchTime.count()));
}

// Sets the count and the lease of a holder. `then` is told whether it still holds.
void hold_again(Service& service, const PendingReply& reply, const std::string& name,
                const LibraryHolder& holder, Duration lease, std::int64_t count,
                const std::function<void(bool)>& then) {
  if (!holder.lock_value.empty() && !holder.lock_value.starts_with(kHead)) {
    return reply.fail(
        refusal("'" + name +
                "' has a value of a latch, a once-guard or the like, "
                "which a count of holds would overwrite: give the RLock another name"));
  }
  Request renewal = extend_request(name, holder, lease);
  Request counting = renewal;
  counting.action = machine::SetValue{name, holder.id, count_text(holder, count)};
  submit_each(service, reply, {renewal, counting}, Outcome::kDone,
              [=, &service](std::int64_t done) {
                if (done != 1) return then(false);
                extend(service, reply, {name}, {holder}, lease,
                       [then](const std::vector<bool>& held) { then(held.front()); });
              });
}

void redisson_take(Service& service, const PendingReply& reply, const std::string& name,
                   const std::string& who, const machine::OwnerPtr& owner, Duration lease) {
  look(service, reply, name, [=, &service](const MaybeHolder& seen) {
    if (seen && !seen->is(who)) {
      return give_integer(reply, std::max<std::int64_t>(1, seen->left_ms()));
    }
    if (seen) {
      return hold_again(
          service, reply, name, *seen, lease, count_of(*seen) + 1,
          [reply](bool held) { held ? give_nothing(reply) : give_integer(reply, 1); });
    }
    // Waiters for the lock go first. A short time left makes this one ask again.
    take(service, reply, {name}, owner, lease, [reply](bool took) {
      constexpr std::int64_t kSoonMs = 50;
      took ? give_nothing(reply) : give_integer(reply, kSoonMs);
    });
  });
}

struct Unlock {
  std::string name;
  std::string latch;
  std::string who;
  Duration lease{};
  Duration latch_time{};
};

void redisson_unlock(Service& service, UnlockAnswers& answers, const PendingReply& reply,
                     const Unlock& unlock) {
  if (const auto known = answers.find(unlock.latch)) return give_integer(reply, *known);
  look(service, reply, unlock.name, [=, &service, &answers](const MaybeHolder& seen) {
    if (!seen || !seen->is(unlock.who)) return give_nothing(reply);
    const auto done = [=, &answers](bool worked, int answer) {
      if (!worked) return give_nothing(reply);
      answers.keep(unlock.latch, answer, unlock.latch_time);
      give_integer(reply, answer);
    };
    if (const std::int64_t left = count_of(*seen) - 1; left > 0) {
      return hold_again(service, reply, unlock.name, *seen, unlock.lease, left,
                        [done](bool held) { done(held, 0); });
    }
    submit_each(service, reply, {release_request(unlock.name, *seen)}, Outcome::kReleased,
                [done](std::int64_t released) { done(released == 1, 1); });
  });
}

void redisson_force(Service& service, const PendingReply& reply, const std::string& name) {
  look(service, reply, name, [=, &service](const MaybeHolder& seen) {
    if (!seen) return give_integer(reply, 0);
    if (!seen->by_value) return reply.fail(held_by_own_client(name));
    submit_each(service, reply, {break_request(reply, name, *seen, "forceUnlock")},
                Outcome::kReleased,
                [reply](std::int64_t released) { give_integer(reply, released); });
  });
}

void redisson_renew(Service& service, const PendingReply& reply, const LockNames& names,
                    const std::vector<std::string>& who, Duration lease) {
  look(service, reply, names, [=, &service](const std::vector<MaybeHolder>& seen) {
    LockNames its;
    std::vector<LibraryHolder> holders;
    std::vector<bool> asked;
    for (std::size_t i = 0; i < names.size(); ++i) {
      asked.push_back(seen[i] && seen[i]->is(who[i]));
      if (!asked.back()) continue;
      its.push_back(names[i]);
      holders.push_back(*seen[i]);
    }
    extend(service, reply, its, holders, lease, [reply, asked](const std::vector<bool>& held) {
      std::string bytes;
      append_array(bytes, asked.size());
      std::size_t next = 0;
      for (const bool was : asked) append_integer(bytes, was && held[next++] ? 1 : 0);
      reply.give(std::move(bytes));
    });
  });
}

}  // namespace

std::optional<int> UnlockAnswers::find(std::string_view name) const {
  const auto found = kept_.find(std::string(name));
  if (found == kept_.end() || found->second.until <= base::BootClock::now()) return std::nullopt;
  return found->second.answer;
}

void UnlockAnswers::keep(const std::string& name, int answer, machine::Duration length) {
  if (kept_
          .insert_or_assign(
              name, Kept{answer, base::BootClock::now() +
                                     std::chrono::duration_cast<base::BootClock::duration>(length)})
          .second) {
    order_.push_back(name);
  }
  while (!order_.empty()) {
    const Kept& oldest = kept_.at(order_.front());
    if (order_.size() <= kMostAnswers && oldest.until > base::BootClock::now()) break;
    kept_.erase(order_.front());
    order_.pop_front();
  }
}

bool is_redisson_count(std::string_view value) { return value.starts_with(kHead); }

std::string redisson_channel_of(std::string_view lock) {
  const bool tagged = lock.find('{') != lock.npos;
  return std::string(kRedissonChannel)
      .append(tagged ? "" : "{")
      .append(lock)
      .append(tagged ? "" : "}");
}

void run_redisson_script(Service& service, UnlockAnswers& answers, Connection& connection,
                         const LibraryScript& script, const Words& words) {
  const PendingReply reply(connection);
  const auto keys = detail::parse_number<std::size_t>(words[2]);
  const bool many = script.keys == LibraryScript::kMany;
  const std::size_t most = words.size() - 3;
  if (!keys || *keys == 0 || *keys > most || (!many && *keys != script.keys) ||
      most != *keys + script.words + (many ? *keys : 0)) {
    return reply.fail(refusal("wrong number of keys or words for this script of Redisson"));
  }
  LockNames names;
  for (std::size_t i = 0; i < *keys; ++i) names.emplace_back(words[3 + i]);
  const std::string& name = names.front();
  const auto word = [&](std::size_t index) { return words[3 + *keys + index]; };
  if (script.does == Does::kRedissonForce) return redisson_force(service, reply, name);
  const auto lease = read_lease(word(script.does == Does::kRedissonUnlock ? 1 : 0));
  if (!lease) return reply.fail(lease.error());
  if (script.does == Does::kRedissonRenew) {
    std::vector<std::string> who;
    for (std::size_t i = 0; i < *keys; ++i) who.emplace_back(word(1 + i));
    return redisson_renew(service, reply, names, who, *lease);
  }
  const auto who = read_value(word(script.does == Does::kRedissonUnlock ? 2 : 1));
  if (!who) return reply.fail(who.error());
  if (script.does == Does::kRedissonTake) {
    return redisson_take(service, reply, name, *who, owner_of_value(connection, *who), *lease);
  }
  const auto latch_time = read_latch_time(word(4));
  if (!latch_time) return reply.fail(refusal("the time of a latch must be positive milliseconds"));
  if (names[2].size() > kLongestLatch)
    return reply.fail(refusal("the name of a latch is too long"));
  // The answer is for nobody but this user, lock and holder.
  const std::string user = connection.account ? connection.account->user->name : std::string();
  const std::string latch = user + '\n' + name + '\n' + *who + '\n' + names[2];
  redisson_unlock(service, answers, reply, {name, latch, *who, *lease, *latch_time});
}

void run_redisson_question(Service& service, Connection& connection, const Words& words,
                           bool counts) {
  const PendingReply reply(connection);
  look(service, reply, std::string(words[1]),
       [reply, who = std::string(words[2]), counts](const MaybeHolder& seen) {
         const bool held = seen && seen->is(who);
         if (!counts) return give_integer(reply, held ? 1 : 0);
         held ? reply.text(std::to_string(count_of(*seen))) : give_nothing(reply);
       });
}

}  // namespace holdfast::server
