#include "src/stores/redis/records.h"

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/detail/number.h"
#include "src/base/random.h"
#include "src/port/records_job.h"
#include "src/stores/redis/blocking_link.h"
#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/errors.h"
#include "src/stores/redis/protocol/keys.h"
#include "src/stores/redis/protocol/slot.h"

namespace holdfast::stores::redis {
namespace {

using base::BootInstant;
using port::Record;
using Version = std::optional<std::uint64_t>;

// KEYS[1] the record KEYS[2] a key that is never there: a replica refuses to delete it. And a
// cluster runs no script of two keys of which one is missing while their slot moves, so none takes
// a record that has left, or has not come yet, for a missing one.
constexpr std::string_view kRead = "redis.call('DEL', KEYS[2]) return redis.call('GET', KEYS[1])";
// ARGV[1] the new record.
constexpr std::string_view kCreate =
    "redis.call('DEL', KEYS[2]) if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end "
    "redis.call('SET', KEYS[1], ARGV[1]) return 1";
// ARGV[1] the new record ARGV[2] "<version> " of the old one.
constexpr std::string_view kReplace =
    "redis.call('DEL', KEYS[2]) local now = redis.call('GET', KEYS[1]) "
    "if not now or now:sub(1, #ARGV[2]) ~= ARGV[2] then return 0 end "
    "redis.call('SET', KEYS[1], ARGV[1]) return 1";

std::string stored(std::uint64_t version, std::string_view text) {
  return std::to_string(version) + ' ' + std::string(text);
}

// Above zero, and below what a signed number can have.
std::uint64_t new_version() { return (base::random_128().low >> 1U) | 1U; }

class RedisRecords final : public port::Records {
 public:
  explicit RedisRecords(Opening opening) : link_(std::move(opening)) {}

  Result<void> open(BootInstant by) { return link_.open(by); }

  Result<std::optional<Record>> read(const std::string& key, BootInstant by) override {
    const std::string place = place_of(key);
    const auto reply = link_.ask(eval(kRead, key, {}), by, /*reads_only=*/true, slot_of_key(place));
    if (!reply) return reply.error();
    if (reply->is_error()) return to_error(*reply, named("read", key), /*reads_only=*/true);
    if (reply->kind == Reply::Kind::kNil) return std::optional<Record>();
    const std::string_view text = reply->text;
    const std::size_t space = text.find(' ');
    const auto version = detail::parse_number<std::uint64_t>(text.substr(0, space));
    if (reply->kind != Reply::Kind::kText || space == text.npos || !version) {
      return Error(Errc::kCorruptState,
                   link_.where() + ": the key " + place + " is no record; look who writes it");
    }
    return std::optional(Record{std::string(text.substr(space + 1)), *version});
  }

  Result<Version> create(const std::string& key, const std::string& text, BootInstant by) override {
    const std::uint64_t version = new_version();
    return change(eval(kCreate, key, {stored(version, text)}), "create", key, version, by);
  }

  Result<Version> replace(const std::string& key, std::uint64_t version, const std::string& text,
                          BootInstant by) override {
    const std::uint64_t next = new_version();
    return change(eval(kReplace, key, {stored(next, text), stored(version, "")}), "replace", key,
                  next, by);
  }

  Result<std::optional<std::chrono::milliseconds>> wall_time(BootInstant by) override {
    std::string wire;
    append_command(wire, std::array<std::string_view, 1>{"TIME"});
    const auto reply = link_.ask(wire, by, /*reads_only=*/true);
    if (!reply) return reply.error();
    if (reply->is_error()) return to_error(*reply, link_.where() + ": TIME", /*reads_only=*/true);
    const auto part = [&](std::size_t at) {
      return at < reply->items.size() ? detail::parse_number<std::int64_t>(reply->items[at].text)
                                      : std::nullopt;
    };
    if (!part(0) || !part(1)) return no_answer("TIME");
    return std::optional(std::chrono::milliseconds(*part(0) * 1'000 + *part(1) / 1'000));
  }

  std::string forgets() const override { return link_.forgets(); }

 private:
  static std::string place_of(const std::string& key) { return record_key(key) + ":record"; }

  static std::string eval(std::string_view script, const std::string& key,
                          const std::vector<std::string>& arguments) {
    const std::string place = place_of(key);
    const std::string none = place + ":none";
    std::vector<std::string_view> words{"EVAL", script, "2", place, none};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::string wire;
    append_command(wire, words);
    return wire;
  }

  Result<Version> change(const std::string& wire, const char* what, const std::string& key,
                         std::uint64_t becomes, BootInstant by) {
    const auto changed = link_.change(wire, by, slot_of_key(place_of(key)));
    if (!changed) return changed.error();
    if (changed->reply.is_error()) return to_error(changed->reply, named(what, key));
    if (changed->reply.integer != 1) return Version();
    if (changed->confirmed) return Version(becomes);
    return Error(Errc::kOutcomeUnknown, named(what, key) + ": " + link_.unconfirmed());
  }

  std::string named(const char* what, const std::string& key) const {
    return link_.where() + ": " + what + " record '" + key + "'";
  }

  BlockingLink link_;
};

}  // namespace

Result<std::unique_ptr<port::Store>> make_records(Opening opening,
                                                  const port::StoreContext& context) {
  auto made = std::make_unique<RedisRecords>(std::move(opening));
  if (auto opened = made->open(context.open_by); !opened) return opened.error();
  return port::answer(*context.records, std::unique_ptr<port::Records>(std::move(made)));
}

}  // namespace holdfast::stores::redis
