#include "tests/differential/differential.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "src/machine/testing/replay_note.h"

namespace holdfast::testing {
namespace {

// Own bounded draws: a seed gives the same commands on every machine.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed + 0x9E37'79B9'7F4A'7C15U) {}
  std::uint64_t next() {  // splitmix64
    std::uint64_t z = (state_ += 0x9E37'79B9'7F4A'7C15U);
    z = (z ^ (z >> 30U)) * 0xBF58'476D'1CE4'E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D0'49BB'1331'11EBU;
    return z ^ (z >> 31U);
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  std::uint64_t state_;
};

std::string text(const std::optional<Duration>& time) {
  return time ? std::to_string(time->count()) + "us" : "-";
}

std::string text(const Result<TicketState>& result) {
  if (!result) return std::string(errc_name(result.error().code()));
  std::ostringstream out;
  out << "status " << static_cast<int>(result->status) << " seq " << result->seq << " lease "
      << result->lease.count() << "us ahead " << result->ahead << " next "
      << text(result->next_expiry);
  return out.str();
}

std::string text(const Result<port::Store::Grants>& result) {
  if (!result) return std::string(errc_name(result.error().code()));
  return *result ? std::to_string((*result)->size()) + " held" : "none";
}

template <typename T>
std::string plain_text(const Result<T>& result) {
  if (!result) return std::string(errc_name(result.error().code()));
  return std::to_string(static_cast<int>(*result));
}

constexpr std::uint64_t kAdoptersStep = std::uint64_t{1} << 53U;
constexpr std::uint64_t kOldNumbers = 8;

// One acquisition that was asked for, and what it was asked for with.
struct Known {
  port::AcquireRequest request;
  std::uint64_t seq = 0;
};

class Run {
 public:
  Run(Site& site, std::vector<Client*> clients, DifferentialTraits traits, machine::Instant now,
      std::uint64_t seed, Coverage& coverage)
      : site_(site),
        clients_(std::move(clients)),
        model_(traits, now),
        dice_(seed),
        seed_(seed),
        coverage_(coverage) {
    for (const char* name : {"a", "b", "c"}) {
      names_.push_back("s" + std::to_string(seed) + "/" + name);
    }
  }

  void step(int number) {
    number_ = number;
    switch (dice_.below(23)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: return acquire_new();
      case 5: return acquire_again();
      case 6:
      case 7:
      case 8: return renew_batch();
      case 9:
      case 10:
      case 11: return end(/*release=*/true);
      case 12: return end(/*release=*/false);
      case 13: return downgrade();
      case 14: return break_one();
      case 15: return dice_.one_in(2) ? values() : keep();
      case 16: return resize();
      case 17: return upgrade();
      case 18:
      case 19: return acquire_all();
      case 20: return release_all();
      default: return pass();
    }
  }

  void inspect_all() {
    for (const std::string& name : names_) inspect(name);
  }

 private:
  Client& any_client() { return *dice_.pick(clients_); }
  // All requests of one acquisition come from one client.
  std::size_t client_number(AcquisitionId id) const { return id.low % clients_.size(); }
  Client& client_of(AcquisitionId id) { return *clients_[client_number(id)]; }
  AcquisitionId fresh() { return {0xD1FF'0000'0000U + seed_, ++last_id_}; }
  Duration some_lease() { return std::chrono::milliseconds(500 * (1 + dice_.below(16))); }

  // A known acquisition, or one that nobody knows.
  Known& some() {
    if (known_.empty() || dice_.one_in(20)) {
      stranger_ = request(dice_.pick(names_));
      return stranger_;
    }
    // Mostly the recent ones, which are more likely to be there still.
    const std::size_t depth = std::min<std::size_t>(known_.size(), dice_.one_in(4) ? 1000 : 8);
    return known_[known_.size() - 1 - dice_.below(depth)];
  }

  Known request(const std::string& name) {
    Known made;
    port::AcquireRequest& request = made.request;
    request.name = name;
    request.id = fresh();
    // A lock is mostly used in one way; sometimes somebody is mistaken.
    const std::uint64_t use =
        dice_.one_in(25) ? dice_.below(3) : (seed_ + static_cast<unsigned char>(name.back())) % 3;
    if (use == 0) {
      request.mode = Mode::exclusive();
    } else if (use == 1) {
      request.mode = dice_.one_in(3) ? Mode::exclusive() : Mode::shared();
    } else {
      const std::uint32_t capacity = dice_.one_in(20) ? 5 : 4;
      request.mode = Mode::of_permits(
          static_cast<std::uint32_t>(1 + dice_.below(dice_.one_in(20) ? 6 : 3)), capacity);
    }
    const bool barging = (seed_ % 4 == 0) != dice_.one_in(40);
    request.policy = barging ? Policy::kBarging : Policy::kFair;
    request.may_wait = !dice_.one_in(4);
    request.ttl = some_lease();
    request.waiter_ttl = some_lease();
    request.max_waiters = dice_.one_in(6) ? static_cast<std::uint32_t>(1 + dice_.below(3)) : 0;
    request.deadline = soon();
    return made;
  }

  void ask(const Known& what) {
    port::AcquireRequest sent = what.request;
    sent.deadline = soon();
    sent.issue = client_of(sent.id).issue_of(sent.id);
    const auto expected = model_.acquire(sent, client_number(sent.id));
    std::optional<Result<TicketState>> got;
    if (dice_.one_in(2)) got = client_of(sent.id).store().acquire_inline(sent);
    if (!got) {
      Request request(sent.name, sent.id);
      static_cast<port::AcquireRequest&>(request) = sent;
      got = client_of(sent.id).acquire(std::move(request));
    }
    compare("acquire", sent.name, sent.id, expected, *got);
  }

  void acquire_new() {
    known_.push_back(request(dice_.pick(names_)));
    ask(known_.back());
  }

  void acquire_again() { ask(Known(some())); }

  // Several names, all asked for by one client.
  std::vector<port::AcquireRequest> some_set() {
    if (!sets_.empty() && dice_.one_in(4)) return dice_.pick(sets_);
    std::vector<std::string> names = names_;
    const std::size_t count = 1 + dice_.below(names.size());
    const std::size_t client = dice_.below(clients_.size());
    std::vector<port::AcquireRequest> set;
    while (set.size() < count) {
      const std::size_t at = dice_.below(names.size());
      Known made = request(names[at]);
      while (client_number(made.request.id) != client) made.request.id = fresh();
      names.erase(names.begin() + static_cast<std::ptrdiff_t>(at));
      known_.push_back(made);
      set.push_back(made.request);
    }
    sets_.push_back(set);
    return set;
  }

  void acquire_all() {
    std::vector<port::AcquireRequest> set = some_set();
    Client& client = client_of(set.front().id);
    if (!client.store().guarantees().multi) return;
    for (port::AcquireRequest& one : set) {
      one.deadline = soon();
      one.issue = client.issue_of(one.id);
    }
    const auto expected = model_.acquire_all(set, client_number(set.front().id));
    std::optional<Result<port::Store::Grants>> got;
    if (dice_.one_in(2)) got = client.store().try_acquire_all_inline(set);
    if (!got) {
      std::vector<Request> requests;
      for (const port::AcquireRequest& one : set) {
        requests.emplace_back(one.name, one.id);
        static_cast<port::AcquireRequest&>(requests.back()) = one;
      }
      got = client.acquire_all(std::move(requests));
    }
    const std::string place = where("acquire_all", set.front().name, set.front().id);
    ASSERT_EQ(text(expected), text(*got)) << place << " and " << set.size() - 1;
    ++coverage_["acquire_all " + (expected ? (*expected ? "held" : "none") : text(expected))];
    if (!expected || !*expected) return;
    for (std::size_t i = 0; i < set.size(); ++i) {
      compare("acquire of all", set[i].name, set[i].id, (**expected)[i], (***got)[i]);
    }
  }

  void release_all() {
    std::vector<std::pair<std::string, AcquisitionId>> tickets;
    std::vector<Result<EndStatus>> expected;
    const std::size_t client = dice_.below(clients_.size());
    for (std::uint64_t tries = 1 + dice_.below(6); tries > 0; --tries) {
      const Known& one = some();
      if (client_number(one.request.id) != client) continue;
      tickets.emplace_back(one.request.name, one.request.id);
    }
    if (tickets.empty()) return;
    for (const auto& [name, id] : tickets) {
      expected.push_back(model_.release(name, id, client, clients_[client]->issue_of(id)));
    }
    const auto got = clients_[client]->release_all(tickets);
    ASSERT_TRUE(got) << where("release_all", "", {});
    ASSERT_EQ(got->size(), tickets.size());
    for (std::size_t i = 0; i < tickets.size(); ++i) {
      compare_plain("release of all", tickets[i].first, tickets[i].second, expected[i], (*got)[i]);
    }
  }

  void upgrade() {
    Known base = some();
    for (int tries = 0; tries < 5 && base.request.mode.kind != machine::ModeKind::kShared;
         ++tries) {
      base = some();
    }
    Known made = request(base.request.name);
    made.request.mode = Mode::exclusive();
    made.request.policy = base.request.policy;
    made.request.upgrade_of = base.request.id;
    known_.push_back(made);
    ask(known_.back());
  }

  void renew_batch() {
    std::vector<port::RenewItem> items;
    std::vector<Result<TicketState>> expected;
    const std::uint64_t count = 1 + dice_.below(dice_.one_in(5) ? 5 : 1);
    for (std::uint64_t i = 0; i < count; ++i) {
      Known& one = some();
      // Who adopts a lease goes on far above: past what a double can tell apart.
      if (dice_.one_in(8)) one.seq += kAdoptersStep;
      const std::uint64_t seq = dice_.one_in(6)
                                    ? one.seq + 2 - dice_.below(std::min(one.seq + 3, kOldNumbers))
                                    : one.seq + 1;
      one.seq = std::max(one.seq, seq);
      items.push_back({one.request.name, one.request.id, seq, some_lease(), some_lease(), {}});
      expected.push_back(model_.renew(items.back()));
    }
    const auto got = any_client().renew(items);
    ASSERT_TRUE(got) << where("renew", "", {});
    ASSERT_EQ(got->size(), items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      compare("renew", items[i].name, items[i].id, expected[i], (*got)[i]);
    }
  }

  void end(bool release) {
    const Known& one = some();
    const std::string name = one.request.name;
    const AcquisitionId id = one.request.id;
    const std::size_t client = client_number(id);
    const std::uint64_t issue = client_of(id).issue_of(id);
    const auto expected =
        release ? model_.release(name, id, client, issue) : model_.cancel(name, id, client, issue);
    std::optional<Result<EndStatus>> got;
    if (release && dice_.one_in(2)) {
      got = client_of(id).store().release_inline({name, id, soon(), issue});
    }
    if (!got) got = release ? client_of(id).release(name, id) : client_of(id).cancel(name, id);
    compare_plain(release ? "release" : "cancel", name, id, expected, *got);
  }

  void downgrade() {
    const Known& one = some();
    const std::string name = one.request.name;
    const AcquisitionId id = one.request.id;
    compare("downgrade", name, id, model_.downgrade(name, id), any_client().downgrade(name, id));
  }

  void break_one() {
    const std::string& name = dice_.pick(names_);
    const auto& tokens = tokens_[name];
    if (tokens.empty()) return;
    // Mostly the newest grant of this lock.
    auto grant = std::prev(tokens.end());
    if (dice_.one_in(3))
      grant = std::next(tokens.begin(), static_cast<std::ptrdiff_t>(dice_.below(tokens.size())));
    compare_plain("break", name, {}, model_.break_lock(name, grant->first),
                  any_client().break_lock(name, grant->second));
  }

  void values() {
    const Known& one = some();
    const std::string name = one.request.name;
    const std::string value = "v" + std::to_string(dice_.below(1000));
    compare_plain("set_value", name, one.request.id, model_.set_value(name, one.request.id, value),
                  any_client().set_value(name, one.request.id, value));
    const auto got = any_client().get_value(name);
    ASSERT_TRUE(got) << where("get_value", name, {});
    EXPECT_EQ(*got, model_.get_value(name)) << where("get_value", name, {});
  }

  void keep() {
    if (any_client().store().guarantees().bound_to_client) return;
    Known& one = some();
    const std::string name = one.request.name;
    const AcquisitionId id = one.request.id;
    const std::uint64_t seq = dice_.one_in(4)
                                  ? one.seq + 2 - dice_.below(std::min(one.seq + 3, kOldNumbers))
                                  : one.seq + 1;
    one.seq = std::max(one.seq, seq);
    const Duration time = some_lease();
    std::optional<std::string> value;
    if (dice_.one_in(2)) value = "k" + std::to_string(dice_.below(1000));
    compare_plain("keep", name, id, model_.keep(name, id, seq, time, value),
                  any_client().keep(name, id, seq, time, value));
    const auto got = any_client().get_value(name);
    ASSERT_TRUE(got) << where("get_value", name, {});
    EXPECT_EQ(*got, model_.get_value(name)) << where("get_value", name, {});
  }

  void resize() {
    const std::string& name = dice_.pick(names_);
    const AcquisitionId id = fresh();
    const auto capacity = static_cast<std::uint32_t>(1 + dice_.below(6));
    compare_plain("resize", name, id, model_.resize(name, id, capacity),
                  any_client().resize(name, id, capacity));
  }

  void pass() {
    const Duration time = std::chrono::milliseconds(dice_.below(dice_.one_in(5) ? 9000 : 1500));
    model_.pass(time);
    site_.pass(time);
  }

  std::string where(const std::string& what, const std::string& name, AcquisitionId id) const {
    return "step " + std::to_string(number_) + ": " + what + " of " + name + " by " +
           std::to_string(id.low);
  }

  void compare(const std::string& what, const std::string& name, AcquisitionId id,
               const Result<TicketState>& expected, const Result<TicketState>& got) {
    const bool broken = !got && got.error().code() == Errc::kBroken && expected &&
                        expected->status == TicketStatus::kGone;
    if (broken) return;  // Told more exactly than the machine can.
    ASSERT_EQ(text(expected), text(got)) << where(what, name, id);
    ++coverage_[what + " " +
                (expected ? std::to_string(static_cast<int>(expected->status)) : text(expected))];
    if (expected && expected->status == TicketStatus::kHeld) {
      compare_tokens(where(what, name, id), name, expected->token, got->token);
    }
  }

  template <typename T>
  void compare_plain(const std::string& what, const std::string& name, AcquisitionId id,
                     const Result<T>& expected, const Result<T>& got) {
    ASSERT_EQ(plain_text(expected), plain_text(got)) << where(what, name, id);
    ++coverage_[what + " " + plain_text(expected)];
  }

  void compare_tokens(const std::string& place, const std::string& name, Token model, Token store) {
    auto& tokens = tokens_[name];
    const auto [entry, is_new] = tokens.emplace(model, store);
    ASSERT_EQ(entry->second, store) << place << ": another token for the same grant";
    if (!is_new) return;
    if (entry != tokens.begin()) {
      ASSERT_LT(std::prev(entry)->second, store) << place << ": the token did not grow";
    }
    const auto later = std::next(entry);
    if (later != tokens.end()) {
      ASSERT_LT(store, later->second) << place << ": a later grant has a lower token";
    }
  }

  void inspect(const std::string& name) {
    const auto expected = model_.inspect(name);
    const auto got = clients_.front()->inspect(name);
    ASSERT_TRUE(got) << where("inspect", name, {});
    const LockInfo nothing;
    const LockInfo& wanted = expected ? *expected : nothing;
    const LockInfo& seen = *got ? **got : nothing;
    EXPECT_EQ(people(wanted), people(seen)) << where("inspect", name, {});
    if (::testing::Test::HasFailure() || wanted.holders.size() != seen.holders.size()) return;
    for (std::size_t i = 0; i < wanted.holders.size(); ++i) {
      const auto inner = [](holdfast::Token token) { return Token{token.epoch, token.counter}; };
      compare_tokens(where("inspect", name, {}), name, inner(wanted.holders[i].token),
                     inner(seen.holders[i].token));
    }
  }

  // What is over by the clock may be shown or not until somebody asks for the lock.
  static std::string people(const LockInfo& lock) {
    std::ostringstream out;
    const auto mode = [](const holdfast::Mode& m) {
      return std::to_string(static_cast<int>(m.kind())) + ":" + std::to_string(m.count()) + "/" +
             std::to_string(m.capacity());
    };
    bool used = false;
    for (const HolderInfo& holder : lock.holders) {
      if (holder.time_left.count() == 0) continue;
      used = true;
      out << "holder " << mode(holder.mode) << " " << holder.time_left.count() << "ms\n";
    }
    for (const WaiterInfo& waiter : lock.waiters) {
      if (waiter.time_left.count() == 0) continue;
      used = true;
      out << "waiter " << mode(waiter.mode) << " " << waiter.time_left.count() << "ms\n";
    }
    if (used) {
      out << (lock.permits ? "permits of " + std::to_string(lock.capacity) : "plain")
          << (lock.barging ? " barging" : " fair");
    }
    return out.str();
  }

  Site& site_;
  std::vector<Client*> clients_;
  Model model_;
  Dice dice_;
  std::uint64_t seed_;
  std::vector<std::string> names_;
  std::vector<Known> known_;
  std::vector<std::vector<port::AcquireRequest>> sets_;
  Known stranger_;
  std::map<std::string, std::map<Token, Token>> tokens_;  // By name: the model's, the store's.
  std::uint64_t last_id_ = 0;
  int number_ = 0;
  Coverage& coverage_;
};

}  // namespace

void run_differential(Site& site, std::vector<Client*> clients, DifferentialTraits traits,
                      machine::Instant now, std::uint64_t seed, int steps, Coverage& coverage) {
  const std::string replay = "replay: HOLDFAST_DIFF_SEED=" + std::to_string(seed);
  SCOPED_TRACE(replay);
  const machine::testing::ReplayNote note(replay);
  Run run(site, std::move(clients), traits, now, seed, coverage);
  for (int number = 1; number <= steps && !::testing::Test::HasFailure(); ++number) {
    run.step(number);
    if (number % 5 == 0 && !::testing::Test::HasFailure()) run.inspect_all();
  }
}

void expect_all_kinds_of_answers(const Coverage& coverage) {
  for (const char* chosen : {"HOLDFAST_DIFF_SEED", "HOLDFAST_DIFF_SEEDS"}) {
    if (std::getenv(chosen) != nullptr) return;  // A few seeds need not see all.
  }
  // 0 held, 1 waiting, 2 busy, 3 gone; of ends: 0 released, 1 cancelled, 2 gone.
  for (const char* kind : {"acquire 0",
                           "acquire 1",
                           "acquire 2",
                           "acquire kInvalidArgument",
                           "acquire kQueueFull",
                           "acquire kLost",
                           "acquire kWouldDeadlock",
                           "renew 0",
                           "renew 1",
                           "renew 3",
                           "release 0",
                           "release 1",
                           "release 2",
                           "cancel 0",
                           "cancel 1",
                           "cancel 2",
                           "downgrade 0",
                           "downgrade 3",
                           "break 1",
                           "break kLost",
                           "set_value 1",
                           "set_value kLost",
                           "keep 1",
                           "keep kLost",
                           "acquire_all held",
                           "acquire_all none",
                           "acquire_all kInvalidArgument",
                           "release of all 0",
                           "release of all 2",
                           "resize 0",
                           "resize 1",
                           "resize kLost",
                           "resize kInvalidArgument"}) {
    const auto seen = coverage.find(kind);
    EXPECT_GE(seen == coverage.end() ? 0 : seen->second, 10) << kind;
  }
}

std::vector<std::uint64_t> differential_seeds(std::uint64_t ordinary) {
  if (const char* one = std::getenv("HOLDFAST_DIFF_SEED")) return {std::stoull(one)};
  if (const char* many = std::getenv("HOLDFAST_DIFF_SEEDS")) ordinary = std::stoull(many);
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = 1; seed <= ordinary; ++seed) seeds.push_back(seed);
  return seeds;
}

}  // namespace holdfast::testing
