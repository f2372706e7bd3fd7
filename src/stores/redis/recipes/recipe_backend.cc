#include "src/stores/redis/recipes/recipe_backend.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "holdfast/detail/renewal_schedule.h"
#include "src/base/hex.h"
#include "src/base/random.h"
#include "src/port/examination.h"
#include "src/stores/redis/doctor/doctor.h"
#include "src/stores/redis/protocol/script_call.h"
#include "src/stores/redis/recipes/scripts.h"
#include "src/stores/redis/transport/pipeline.h"
#include "src/stores/redis/transport/subscriber.h"

namespace holdfast::stores::redis {
namespace {

using base::BootClock;
using base::BootInstant;
using port::Done;
using recipes::Hold;
using recipes::Taken;

constexpr std::chrono::milliseconds kLongestAnswer{5000};
constexpr std::size_t kRenewalsPerScript = 128;  // All other clients wait while a script runs.
constexpr std::chrono::milliseconds kPollUnheard{250};
constexpr std::chrono::milliseconds kPollHeard{2000};  // Messages wake waiters.
constexpr char kPage[] = "docs/stores/redis.md";

std::int64_t number_of(const Reply& reply) {
  if (reply.kind == Reply::Kind::kInteger) return reply.integer;
  std::int64_t value = 0;
  std::from_chars(reply.text.data(), reply.text.data() + reply.text.size(), value);
  return value;
}

bool has(const Reply& reply, std::size_t items) {
  return reply.kind == Reply::Kind::kArray && reply.items.size() >= items;
}

// Some libraries write random bytes.
std::string printable(const std::string& mark) {
  const bool plain =
      std::all_of(mark.begin(), mark.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (plain) return mark.substr(0, 256);
  return "0x" + base::hex_of(mark.substr(0, 64));
}

class RecipeBackend final : public recipes::Backend,
                            public std::enable_shared_from_this<RecipeBackend> {
 public:
  RecipeBackend(RemotePtr remote, RecipeOptions options, const port::StoreContext& context)
      : options_(std::move(options)),
        form_(redisson() ? recipe_scripts::kRedisson : recipe_scripts::kSetNx),
        name_space_(context.name_space + (context.name_space.empty() ? "" : "/")),
        place_(remote->address.display()),
        lease_(std::to_string(options_.session.count())),
        remote_(remote),
        pipeline_(*context.io, remote),
        renewals_(*context.io, remote),
        subscriber_(*context.io, remote, redisson_channel(options_.prefix + "holdfast-" + nonce()),
                    {[](std::string_view) {}, [](bool) {}, [](const Error&) {},
                     [this](std::string_view channel) { heard(channel); },
                     [this](std::string_view channel) { heard(channel); }}) {}

  Guarantees guarantees() const override { return recipe_guarantees(options_); }
  Result<std::string> key_of(const std::string& name) const override {
    return options_.prefix + name;
  }

  void start(Lost, Done<bool> done) override {
    ask(pipeline_, "return redis.call('TIME')", {}, {}, true,
        [done](const Result<Reply>& reply) { reply ? done(true) : done(reply.error()); });
  }

  void take(Hold hold, machine::OwnerPtr, Done<Taken> done) override {
    std::vector<std::string> words{mark_of(options_.recipe, hold.id), lease_};
    if (redisson()) words.push_back(redisson_channel(hold.key));
    ask(pipeline_, form_.take, {hold.key}, std::move(words), false,
        [this, done](const Result<Reply>& reply) {
          if (!reply) return done(reply.error());
          if (!has(*reply, 2)) return done(nonsense());
          if (number_of(reply->items[0]) == 1 && has(*reply, 3)) {
            const std::int64_t micros =
                number_of(reply->items[1]) * 1'000'000 + number_of(reply->items[2]);
            return done(Taken{true, static_cast<std::uint64_t>(micros), {}});
          }
          Taken busy;
          const std::int64_t left = number_of(reply->items[1]);
          if (left >= 0) busy.free_in = std::chrono::milliseconds(left);  // -1: it never ends.
          done(busy);
        });
  }

  void confirm(std::vector<Hold> holds, Done<std::vector<Result<bool>>> done) override {
    struct Gathered {
      std::vector<Result<bool>> results;
      std::size_t missing;
      Done<std::vector<Result<bool>>> done;
    };
    const std::size_t count = holds.size();
    const auto gathered = std::make_shared<Gathered>(
        Gathered{std::vector<Result<bool>>(count, false),
                 (count + kRenewalsPerScript - 1) / kRenewalsPerScript, std::move(done)});
    for (std::size_t from = 0; from < count; from += kRenewalsPerScript) {
      const std::size_t to = std::min(count, from + kRenewalsPerScript);
      std::vector<std::string> keys;
      std::vector<std::string> words{lease_};
      for (std::size_t i = from; i < to; ++i) {
        keys.push_back(holds[i].key);
        words.push_back(mark_of(options_.recipe, holds[i].id));
      }
      ask(renewals_, form_.renew, std::move(keys), std::move(words), false,
          [this, gathered, from, to](const Result<Reply>& reply) {
            for (std::size_t i = from; i < to; ++i) {
              auto& result = gathered->results[i];
              if (!reply) {
                result = reply.error();
              } else if (!has(*reply, to - from)) {
                result = nonsense();
              } else {
                result = number_of(reply->items[i - from]) == 1;
              }
            }
            if (--gathered->missing == 0) gathered->done(std::move(gathered->results));
          });
    }
  }

  void give_back(Hold hold, Done<bool> done) override {
    std::vector<std::string> words{mark_of(options_.recipe, hold.id)};
    if (redisson()) words.push_back(redisson_channel(hold.key));
    ask(pipeline_, form_.give_back, {hold.key}, std::move(words), false,
        [done](const Result<Reply>& reply) {
          if (!reply) return done(reply.error());
          done(number_of(*reply) == 1);
        });
  }

  void inspect(Hold hold, Done<std::optional<LockInfo>> done) override {
    ask(pipeline_, form_.inspect, {hold.key}, {}, true,
        [this, hold, done](const Result<Reply>& reply) {
          if (!reply) return done(reply.error());
          std::optional<LockInfo> info;
          if (!has(*reply, 2)) return done(std::move(info));
          info.emplace().name = hold.name;
          HolderInfo& holder = info->holders.emplace_back();
          const std::int64_t left = number_of(reply->items[1]);
          holder.time_left = std::chrono::milliseconds(std::max<std::int64_t>(left, 0));
          const std::string& kind = reply->items[0].text;
          const bool known = kind == (redisson() ? "hash" : "string");
          if (known && has(*reply, 3)) holder.who.owner = printable(reply->items[2].text);
          if (!known) holder.who.reason = "a key of type " + kind + ": not a lock of this form";
          if (known && left < 0) holder.who.reason = "the key has no expiry";
          done(std::move(info));
        });
  }

  void probe(Done<std::vector<Finding>> done) override {
    const BootInstant deadline = BootClock::now() + answer_time();
    DoctorAccess access;
    access.read = [this](const std::vector<std::string_view>& words, BootInstant until,
                         Done<Reply> answered) { read(words, until, std::move(answered)); };
    access.try_lock = [this](BootInstant, Done<void> tried) { try_lock(tried); };
    access.subscribe = [this](BootInstant until, Done<void> subscribed) {
      if (!redisson()) return subscribed({});
      subscriber_.ensure(until, std::move(subscribed));
    };
    examine(std::move(access), remote_->address, deadline,
            [done](Result<std::vector<Finding>> findings) {
              if (!findings) return done(findings.error());
              port::add(
                  *findings, Severity::kWarning, "recipe",
                  "locks in another program's form have no fencing tokens and no order",
                  std::string("use the store without recipe= once every program does: ") + kPage);
              done(std::move(*findings));
            });
  }

  void on_free(Free free) override { free_ = std::move(free); }
  void watch(const std::string& key, bool waits) override {
    if (!redisson()) return;
    const std::string channel = redisson_channel(key);
    if (waits) {
      watched_[channel] = key;
      subscriber_.join(channel);
    } else {
      watched_.erase(channel);
      subscriber_.leave(channel);
    }
  }
  std::chrono::milliseconds longest_pause() const override {
    return redisson() && subscriber_.confirmed() ? kPollHeard : kPollUnheard;
  }
  std::string how_to_break() const override {
    return redisson() ? "with recipe= no lock can be broken: use Redisson's forceUnlock(), or DEL "
                        "the key, and its holder is told by its next renewal"
                      : "with recipe= no lock can be broken: DEL the key, and its holder is told "
                        "by its next renewal";
  }

  void close() override {
    pipeline_.close();
    renewals_.close();
    subscriber_.close();
  }
  void abandon_after_fork() noexcept override {
    pipeline_.abandon();
    renewals_.abandon();
    subscriber_.abandon();
  }

 private:
  // So that a renewal can be tried again.
  std::chrono::milliseconds answer_time() const {
    return std::min(kLongestAnswer, std::chrono::floor<std::chrono::milliseconds>(
                                        detail::RenewalSchedule(options_.session).request_time()));
  }
  bool redisson() const { return options_.recipe == Recipe::kRedisson; }
  static std::string nonce() { return base::to_hex(base::random_128().high, 0).substr(0, 16); }

  Error nonsense() const {
    return {Errc::kOutcomeUnknown, place_ + ": the answer of a script cannot be read"};
  }

  // On the loop: a message, or the begin of the subscription.
  void heard(std::string_view channel) {
    const auto found = watched_.find(std::string(channel));
    if (found != watched_.end() && free_) free_(std::string(found->second));
  }

  void ask(Pipeline& pipeline, std::string_view script, std::vector<std::string> keys,
           std::vector<std::string> words, bool reads_only,
           std::function<void(const Result<Reply>&)> done) {
    Command command;
    command.reads_only = reads_only;
    append_array_header(command.wire, 3 + keys.size() + words.size());
    append_word(command.wire, "EVAL");
    append_word(command.wire, script);
    append_word(command.wire, std::to_string(keys.size()));
    for (const std::string& key : keys) append_word(command.wire, key);
    for (const std::string& word : words) append_word(command.wire, word);
    send(pipeline, std::move(command), BootClock::now() + answer_time(), std::move(done));
  }

  void read(const std::vector<std::string_view>& words, BootInstant deadline, Done<Reply> done) {
    Command command;
    command.reads_only = true;
    append_command(command.wire, words);
    send(pipeline_, std::move(command), deadline,
         [done = std::move(done)](const Result<Reply>& reply) { done(reply); });
  }

  void send(Pipeline& pipeline, Command command, BootInstant deadline,
            std::function<void(const Result<Reply>&)> done) {
    const bool reads_only = command.reads_only;
    pipeline.send(
        std::move(command), deadline,
        [weak = weak_from_this(), reads_only, done = std::move(done)](Result<Reply> reply) {
          const auto self = weak.lock();
          if (self) done(checked(std::move(reply), self->place_, reads_only));
        });
  }

  // For the doctor: takes a lock that nobody else uses, and gives it back.
  void try_lock(const Done<void>& done) {
    const base::Random128 random = base::random_128();
    const std::string name = options_.prefix + name_space_ + "holdfast-doctor/" + nonce();
    const Hold hold{name, name, {random.high, random.low}};
    take(hold, nullptr, [this, hold, done](const Result<Taken>& taken) {
      if (!taken) return done(taken.error());
      give_back(hold,
                [done](const Result<bool>& given) { given ? done({}) : done(given.error()); });
    });
  }

  const RecipeOptions options_;
  const recipe_scripts::Form& form_;
  const std::string name_space_;
  const std::string place_;
  const std::string lease_;
  const RemotePtr remote_;
  Free free_;
  std::unordered_map<std::string, std::string> watched_;  // Channels, and their keys.
  Pipeline pipeline_;
  Pipeline renewals_;
  Subscriber subscriber_;
};

}  // namespace

std::shared_ptr<recipes::Backend> make_recipe_backend(RemotePtr remote,
                                                      const RecipeOptions& options,
                                                      const port::StoreContext& context) {
  return std::make_shared<RecipeBackend>(std::move(remote), options, context);
}

std::string mark_of(Recipe recipe, machine::AcquisitionId id) {
  std::string hex = base::to_hex(id.high, id.low);
  if (recipe != Recipe::kRedisson) return hex;
  for (const std::size_t at : {20U, 16U, 12U, 8U}) hex.insert(at, 1, '-');
  return hex + ":1";
}

std::string redisson_channel(const std::string& key) {
  const bool tagged = key.find('{') != std::string::npos;
  return "redisson_lock__channel:" + (tagged ? key : "{" + key + "}");
}

}  // namespace holdfast::stores::redis
