#include "tests/differential/differential.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <tuple>

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

std::string text(const Result<AcquisitionState>& result, bool with_leases = true) {
  if (!result) return std::string(errc_name(result.error().code()));
  std::ostringstream out;
  out << "status " << static_cast<int>(result->status) << " seq " << result->seq;
  if (!with_leases) return out.str();
  out << " lease " << result->lease.count() << "us ahead " << result->ahead << " next "
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
constexpr Duration kNeverOver = std::chrono::hours(1);

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
        bound_(traits.session_bound),
        at_once_(traits.renews_at_once),
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
    command();
    if (bound_) see_to_news();
  }

  void inspect_all() {
    for (const std::string& name : names_) inspect(name);
  }

  // Nobody was told of a grant that was not the model's. Then all give up: a run's waiters would
  // take the place of the next one's where only so many are woken (Consul).
  void give_up_in_silence() {
    if (!bound_) return;
    for (const Known& known : known_) {
      const auto& [name, id] = std::tie(known.request.name, known.request.id);
      if (!model_.stands(name, id)) continue;
      const auto expected = model_.release(name, id, client_number(id), client_of(id).issue_of(id));
      compare_plain("release", name, id, expected, client_of(id).release(name, id));
      see_to_news();
      if (::testing::Test::HasFailure()) return;
    }
    for (const Known& known : known_) {
      Inbox& inbox = client_of(known.request.id).inbox();
      while (inbox.count(known.request.id) > 0) {
        const auto push = inbox.next(known.request.id);
        ASSERT_NE(push->kind, port::Push::Kind::kGranted)
            << where("a grant", known.request.name, known.request.id) << " is told once more";
      }
    }
  }

 private:
  void command() {
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
      case 19: return bound_ ? acquire_new() : acquire_all();
      case 20: return release_all();
      default: return bound_ ? upgrade() : pass();
    }
  }

  Client& any_client() { return *dice_.pick(clients_); }
  // All requests of one acquisition come from one client.
  std::size_t client_number(AcquisitionId id) const { return id.low % clients_.size(); }
  Client& client_of(AcquisitionId id) { return *clients_[client_number(id)]; }
  AcquisitionId fresh() { return {0xD1FF'0000'0000U + seed_, ++last_id_}; }
  // The clients that may ask about a ticket: only its own where it belongs to a session.
  Client& any_client_for(AcquisitionId id) { return bound_ ? client_of(id) : any_client(); }
  AcquisitionId fresh_like(AcquisitionId other) {
    AcquisitionId id = fresh();
    while (client_number(id) != client_number(other)) id = fresh();
    return id;
  }
  Duration some_lease() {
    if (bound_) return kNeverOver;
    return std::chrono::milliseconds(500 * (1 + dice_.below(16)));
  }

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
    std::optional<Result<AcquisitionState>> got;
    if (dice_.one_in(2)) got = client_of(sent.id).store().acquire_inline(sent);
    if (!got) {
      Request request(sent.name, sent.id);
      static_cast<port::AcquireRequest&>(request) = sent;
      got = client_of(sent.id).acquire(std::move(request));
    }
    compare("acquire", sent.name, sent.id, expected, *got);
    const bool queued = expected && expected->status == AcquisitionStatus::kWaiting;
    if (!bound_ || !queued || ::testing::Test::HasFailure()) return;
    // Told as of the ticket's newest look at the queue, so compared when it comes in.
    if (!queued_.insert(sent.id).second) return;
    EXPECT_EQ((*got)->ahead, expected->ahead) << where("acquire", sent.name, sent.id);
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
    std::vector<Known> ends;
    const std::size_t client = dice_.below(clients_.size());
    for (std::uint64_t tries = 1 + dice_.below(6); tries > 0; --tries) {
      const Known& one = some();
      if (client_number(one.request.id) != client) continue;
      // Where each is a request of its own, tickets that end together may all be told of it.
      const auto ends_with_it = [&one](const Known& other) {
        return other.request.id == one.request.id || other.request.id == one.request.upgrade_of ||
               other.request.upgrade_of == one.request.id;
      };
      if (bound_ && std::any_of(ends.begin(), ends.end(), ends_with_it)) continue;
      ends.push_back(one);
    }
    if (ends.empty()) return;
    std::vector<std::pair<std::string, AcquisitionId>> tickets;
    for (const Known& one : ends) tickets.emplace_back(one.request.name, one.request.id);
    std::vector<Result<EndStatus>> expected;
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
    made.request.upgrade_of = base.request.id;
    if (bound_) made.request.id = fresh_like(base.request.id);
    known_.push_back(made);
    ask(known_.back());
  }

  void renew_batch() {
    std::vector<port::RenewItem> items;
    std::vector<Result<AcquisitionState>> expected;
    const std::uint64_t count = 1 + dice_.below(dice_.one_in(5) ? 5 : 1);
    AcquisitionId first{};
    for (std::uint64_t i = 0; i < count; ++i) {
      Known& one = some();
      if (!first) first = one.request.id;
      const auto same = [&](const port::RenewItem& item) { return item.id == one.request.id; };
      const bool again = std::any_of(items.begin(), items.end(), same);
      if (bound_ && (again || client_number(one.request.id) != client_number(first))) continue;
      // An adopter of a lease continues far above: past what a double can tell apart.
      if (dice_.one_in(8)) one.seq += kAdoptersStep;
      // A new one waits for news of the session, for a holder.
      const bool old = bound_ ? !dice_.one_in(6) : dice_.one_in(6);
      const std::uint64_t seq =
          old ? one.seq + 2 - dice_.below(std::min(one.seq + 3, kOldNumbers)) : one.seq + 1;
      one.seq = std::max(one.seq, seq);
      items.push_back({one.request.name, one.request.id, seq, some_lease(), some_lease(), {}});
      expected.push_back(model_.renew(items.back()));
    }
    const auto got = any_client_for(first).renew(items);
    ASSERT_TRUE(got) << where("renew", "", {});
    ASSERT_EQ(got->size(), items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      Result<AcquisitionState> state = (*got)[i];
      if (at_once_ && state && expected[i]) state->next_expiry = expected[i]->next_expiry;
      compare("renew", items[i].name, items[i].id, expected[i], state);
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
    // Right or wrong, the hint changes no answer.
    const bool others_wait = issue % 2 == 1;
    if (!got) {
      got = release ? client_of(id).release(name, id, others_wait)
                    : client_of(id).cancel(name, id);
    }
    compare_plain(release ? "release" : "cancel", name, id, expected, *got);
  }

  void downgrade() {
    const Known& one = some();
    const std::string name = one.request.name;
    const AcquisitionId id = one.request.id;
    const auto expected = model_.downgrade(name, id);
    compare("downgrade", name, id, expected, any_client_for(id).downgrade(name, id));
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
                  any_client_for(one.request.id).set_value(name, one.request.id, value));
    const auto got = any_client().get_value(name);
    ASSERT_TRUE(got) << where("get_value", name, {});
    EXPECT_EQ(*got, model_.get_value(name)) << where("get_value", name, {});
  }

  void keep() {
    if (bound_) return;
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
    Client& client = any_client_for(id);
    model_.note_issue(client_number(id), client.issue_of(id));
    compare_plain("resize", name, id, model_.resize(name, id, capacity),
                  client.resize(name, id, capacity));
  }

  void pass() {
    const Duration time = std::chrono::milliseconds(dice_.below(dice_.one_in(5) ? 9000 : 1500));
    model_.pass(time);
    site_.pass(time);
  }

  // HOLDFAST_DIFF_TRACE=1: every command, and what the model says.
  void trace(const std::string& what, const std::string& name, AcquisitionId id,
             const std::string& expected) const {
    static const bool wanted = std::getenv("HOLDFAST_DIFF_TRACE") != nullptr;
    if (wanted) std::printf("%s: %s\n", where(what, name, id).c_str(), expected.c_str());
  }

  std::string where(const std::string& what, const std::string& name, AcquisitionId id) const {
    return "step " + std::to_string(number_) + ": " + what + " of " + name + " by " +
           std::to_string(id.low);
  }

  void compare(const std::string& what, const std::string& name, AcquisitionId id,
               const Result<AcquisitionState>& expected, const Result<AcquisitionState>& got) {
    const bool broken = !got && got.error().code() == Errc::kBroken && expected &&
                        expected->status == AcquisitionStatus::kGone;
    if (broken) return;  // Told more exactly than the machine can.
    trace(what, name, id, text(expected));
    ASSERT_EQ(text(expected, !bound_), text(got, !bound_)) << where(what, name, id);
    ++coverage_[what + " " +
                (expected ? std::to_string(static_cast<int>(expected->status)) : text(expected))];
    if (expected && expected->status == AcquisitionStatus::kHeld) {
      compare_tokens(where(what, name, id), name, expected->token, got->token);
    }
  }

  template <typename T>
  void compare_plain(const std::string& what, const std::string& name, AcquisitionId id,
                     const Result<T>& expected, const Result<T>& got) {
    trace(what, name, id, plain_text(expected));
    ASSERT_EQ(plain_text(expected), plain_text(got)) << where(what, name, id);
    ++coverage_[what + " " + plain_text(expected)];
  }

  void compare_tokens(const std::string& place, const std::string& name, Token model, Token store) {
    auto& tokens = tokens_[name];
    const auto [entry, is_new] = tokens.emplace(model, store);
    ASSERT_EQ(entry->second, store) << place << ": another token for the same grant";
    if (!is_new) return;
    for (const auto& [other, token] : tokens) {
      if (other == model || are_together(name, other, model)) continue;
      ASSERT_EQ(other < model, token < store)
          << place << ": tokens in another order than the grants: " << token.counter << " and "
          << store.counter;
    }
  }

  bool are_together(const std::string& name, Token one, Token other) const {
    const auto step = together_.find({name, one});
    const auto others = together_.find({name, other});
    return step != together_.end() && others != together_.end() && step->second == others->second;
  }

  // The client concerned carries out a command's consequences a little later.
  void see_to_news() {
    for (const machine::Effect& effect : model_.take_news()) {
      if (::testing::Test::HasFailure()) return;
      switch (effect.kind) {
        case machine::EffectKind::kGranted: expect_grant(effect); break;
        case machine::EffectKind::kBroken: expect_hint(effect); break;
        case machine::EffectKind::kResized:
        case machine::EffectKind::kDropped: await_lock(effect.name); break;
        default: break;
      }
    }
  }

  void expect_grant(const machine::Effect& effect) {
    const std::string place = where("a grant", effect.name, effect.id);
    std::optional<Push> push;
    do {
      push = client_of(effect.id).inbox().next(effect.id);
      ASSERT_TRUE(push) << place << " is not told";
    } while (push->kind != port::Push::Kind::kGranted);
    ASSERT_EQ(push->state.status, AcquisitionStatus::kHeld) << place;
    EXPECT_EQ(push->state.seq, effect.seq) << place;
    EXPECT_GT(push->state.lease.count(), 0) << place;
    // Readers of several clients who are let in at once come to hold in any order.
    if (effect.mode.kind == machine::ModeKind::kShared) {
      together_[{effect.name, effect.token}] = number_;
    }
    compare_tokens(place, effect.name, effect.token, push->state.token);
    ++coverage_["grant to a waiter"];
  }

  // The client whose ticket was taken away has learned of it.
  void expect_hint(const machine::Effect& effect) {
    std::optional<Push> push;
    do {
      push = client_of(effect.id).inbox().next(effect.id);
      ASSERT_TRUE(push) << where("a break", effect.name, effect.id) << " is not told";
    } while (push->kind != port::Push::Kind::kHint);
    ++coverage_["hint of a break"];
  }

  // Until the store shows what the model does.
  void await_lock(const std::string& name) {
    const auto until = soon();
    const auto wanted = model_.inspect(name).value_or(LockInfo());
    while (true) {
      const auto seen = clients_.front()->inspect(name);
      ASSERT_TRUE(seen) << where("inspect", name, {});
      if (people(wanted) == people(seen->value_or(LockInfo()))) return;
      ASSERT_LT(base::BootClock::now(), until)
          << where("inspect", name, {}) << ": " << people(seen->value_or(LockInfo()));
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

  // A lease that has run out may be listed or not until somebody asks for the lock.
  std::string people(const LockInfo& lock) const {
    std::ostringstream out;
    const auto mode = [](const holdfast::Mode& m) {
      return std::to_string(static_cast<int>(m.kind())) + ":" + std::to_string(m.count()) + "/" +
             std::to_string(m.capacity());
    };
    bool used = false;
    const auto add = [&](const char* what, const auto& person) {
      if (person.time_left.count() == 0) return;
      used = true;
      out << what << mode(person.mode);
      if (!bound_) out << " " << person.time_left.count() << "ms";
      out << "\n";
    };
    for (const HolderInfo& holder : lock.holders) add("holder ", holder);
    for (const WaiterInfo& waiter : lock.waiters) add("waiter ", waiter);
    if (used) {
      out << (lock.permits ? "permits of " + std::to_string(lock.capacity) : "plain");
    }
    return out.str();
  }

  Site& site_;
  std::vector<Client*> clients_;
  const bool bound_;
  const bool at_once_;
  Model model_;
  Dice dice_;
  std::uint64_t seed_;
  std::vector<std::string> names_;
  std::vector<Known> known_;
  std::vector<std::vector<port::AcquireRequest>> sets_;
  Known stranger_;
  std::set<AcquisitionId> queued_;
  std::map<std::pair<std::string, Token>, int> together_;
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
  if (!::testing::Test::HasFailure()) run.give_up_in_silence();
}

void expect_all_kinds_of_answers(const Coverage& coverage, const DifferentialTraits& traits) {
  for (const char* chosen : {"HOLDFAST_DIFF_SEED", "HOLDFAST_DIFF_SEEDS"}) {
    if (std::getenv(chosen) != nullptr) return;  // A few seeds need not see all.
  }
  // 0 held, 1 waiting, 2 busy, 3 gone; of ends: 0 released, 1 cancelled, 2 gone.
  std::vector<const char*> kinds{
      "acquire 0",
      "acquire 1",
      "acquire 2",
      "acquire kInvalidArgument",
      "acquire kLost",
      "renew 0",
      "renew 1",
      "acquire kQueueFull",
      "renew 3",
      "release 0",
      "release 1",
      "acquire kWouldDeadlock",
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
      "resize 0",
      "resize 1",
      "resize kLost",
      "release of all 0",
      "resize kInvalidArgument",
      "release of all 2",
  };
  const auto also = [&](std::initializer_list<const char*> more) {
    kinds.insert(kinds.end(), more);
  };
  if (traits.session_bound) {
    also({"grant to a waiter", "hint of a break"});
  } else {
    also({"keep 1", "keep kLost"});
  }
  if (traits.multi && !traits.session_bound) {
    also({"acquire_all held", "acquire_all none", "acquire_all kInvalidArgument"});
  }
  for (const char* kind : kinds) {
    const auto seen = coverage.find(kind);
    // Real servers leave time for fewer runs.
    EXPECT_GE(seen == coverage.end() ? 0 : seen->second, traits.session_bound ? 2 : 10) << kind;
  }
}

void compare_session_store(Site& site, std::uint64_t seeds) {
  constexpr DifferentialTraits kTraits{.one_machine = false,
                                       .inspect_passes_time = false,
                                       .tombstone = Duration(0),
                                       .session_bound = true};
  Client alice(site, "alice");
  Client bob(site, "bob");
  Coverage coverage;
  for (const std::uint64_t seed : differential_seeds(seeds)) {
    run_differential(site, {&alice, &bob}, kTraits, machine::Instant{}, seed, 200, coverage);
    if (::testing::Test::HasFailure()) return;
  }
  expect_all_kinds_of_answers(coverage, kTraits);
}

std::vector<std::uint64_t> differential_seeds(std::uint64_t ordinary) {
  if (const char* one = std::getenv("HOLDFAST_DIFF_SEED")) return {std::stoull(one)};
  if (const char* many = std::getenv("HOLDFAST_DIFF_SEEDS")) ordinary = std::stoull(many);
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = 1; seed <= ordinary; ++seed) seeds.push_back(seed);
  return seeds;
}

}  // namespace holdfast::testing
