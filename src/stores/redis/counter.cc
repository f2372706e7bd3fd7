#include "src/stores/redis/counter.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/detail/number.h"
#include "src/port/native_counter.h"
#include "src/stores/redis/blocking_link.h"
#include "src/stores/redis/protocol/errors.h"

namespace holdfast::stores::redis {
namespace {

using base::BootInstant;

// Each begins with a write of nothing, which a replica refuses: it may not have the key yet.
// KEYS[1] the counter. Text and remaining time in milliseconds.
constexpr std::string_view kLook =
    "redis.call('SETRANGE', KEYS[1], 0, '') "
    "return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}";
// ARGV[1] how many. The answer is the text, because a number of Lua has 53 bits only. A key that
// got a time after it was opened is looked at each time: it would begin anew.
constexpr std::string_view kTake =
    "redis.call('SETRANGE', KEYS[1], 0, '') "
    "if not redis.call('GET', KEYS[1]) then return false end "
    "if redis.call('PTTL', KEYS[1]) >= 0 then return 'expires' end "
    "redis.call('INCRBY', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])";

constexpr const char* kExpires =
    "the key expires, and would then begin anew: remove its time (PERSIST)";

class RedisCounter final : public port::NativeCounter {
 public:
  RedisCounter(Opening opening, std::string key)
      : link_(std::move(opening)), key_(std::move(key)) {}

  Result<void> create(std::uint64_t from, BootInstant by) {
    if (from == 0) {
      return Error(Errc::kUnsupported,
                   named() + "its first number is 1 or more: INCR begins behind the key's value");
    }
    const std::string before = std::to_string(from - 1);
    std::string wire;
    append_command(wire, std::array<std::string_view, 4>{"SET", key_, before, "NX"});
    const auto made = link_.change(std::move(wire), by);
    if (!made) return made.error();
    if (made->reply.is_error()) return to_error(made->reply, link_.where());
    if (made->reply.kind == Reply::Kind::kNil) {
      return Error(Errc::kStoreInUse, named() + "it is there already");
    }
    if (made->confirmed) return {};
    return Error(Errc::kOutcomeUnknown, named() + link_.unconfirmed());
  }

  Result<void> open(BootInstant by) {
    if (auto opened = link_.open(by); !opened) return opened;
    const auto found = link_.ask(eval(kLook, {}), by, /*reads_only=*/true);
    if (!found) return found.error();
    if (found->is_error()) {
      Error why = refused(*found);
      // Nobody has relied on it yet.
      return why.code() == Errc::kCorruptState ? Error(Errc::kInvalidArgument, why.message()) : why;
    }
    if (found->items.size() != 2 || found->items[0].kind != Reply::Kind::kText) {
      return Error(Errc::kInvalidArgument,
                   named() + "there is no such key: make it once (StoreCounter::create, or SET)");
    }
    if (!detail::parse_number<std::int64_t>(found->items[0].text)) {
      return Error(Errc::kInvalidArgument, named() + "its value is no whole number");
    }
    if (found->items[1].integer >= 0) {
      return Error(Errc::kInvalidArgument, named() + kExpires);
    }
    return {};
  }

  Result<Taken> take(std::uint32_t count, BootInstant by) override {
    const auto taken = link_.change(eval(kTake, {std::to_string(count)}), by);
    if (!taken) return taken.error();
    const Reply& reply = taken->reply;
    if (reply.is_error()) return refused(reply);
    if (reply.kind == Reply::Kind::kNil) {
      return Error(Errc::kCorruptState, named() + "the key is gone");
    }
    if (reply.text == "expires") return Error(Errc::kCorruptState, named() + kExpires);
    const auto last = detail::parse_number<std::int64_t>(reply.text);
    if (!last || *last < std::int64_t{count}) {
      return Error(Errc::kCorruptState,
                   named() + "it is at " + reply.text + ", and ids are no negative numbers");
    }
    if (!taken->confirmed) return Error(Errc::kOutcomeUnknown, named() + link_.unconfirmed());
    Taken numbers{.counter = static_cast<std::uint64_t>(*last)};
    for (std::uint32_t left = count; left > 0; --left) {
      numbers.numbers.push_back(numbers.counter - left + 1);
    }
    return numbers;
  }

  std::string forgets() const override { return link_.forgets(); }

 private:
  std::string eval(std::string_view script, const std::vector<std::string>& arguments) const {
    std::vector<std::string_view> words{"EVAL", script, "1", key_};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::string wire;
    append_command(wire, words);
    return wire;
  }

  // The server's words stand behind others, where a script met them. None of these changed a key.
  Error refused(const Reply& reply) const {
    const auto says = [&](std::string_view words) { return reply.text.find(words) != words.npos; };
    if (says("would overflow")) {
      return {Errc::kUnsupported, named() + "the last number below 2^63 is given"};
    }
    if (says("WRONGTYPE")) {
      return {Errc::kCorruptState, named() + "the key is no string, and so no counter"};
    }
    if (says("not an integer")) {
      return {Errc::kCorruptState, named() + "its value is no whole number"};
    }
    return to_error(reply, link_.where() + ": counter '" + key_ + "'");
  }

  std::string named() const { return link_.where() + ": counter '" + key_ + "': "; }

  BlockingLink link_;
  const std::string key_;
};

}  // namespace

Result<std::unique_ptr<port::Store>> make_counter(Opening opening,
                                                  const port::StoreContext& context) {
  if (!opening.remote->address.nodes.empty()) {
    return Error(Errc::kUnsupported, opening.remote->address.display() +
                                         ": a Redis Cluster has no counters: name a single "
                                         "server, or Sentinels");
  }
  return port::answer(*context.counter,
                      std::make_unique<RedisCounter>(std::move(opening), context.counter->name),
                      context.open_by);
}

}  // namespace holdfast::stores::redis
