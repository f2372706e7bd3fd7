#include "tests/cluster/crowd.h"

#include <algorithm>
#include <sstream>

#include "src/server/record.h"
#include "src/stores/etcd/keys.h"

namespace holdfast::testing::cluster {
namespace {

using namespace std::chrono_literals;
using machine::Duration;
using machine::Instant;
using machine::Outcome;

constexpr std::size_t kMostAcquisitions = 60;
constexpr int kFarewells = 4;
constexpr const char* kRoot = "hf1/j/";

// Collects the effects of a record.
class Effects final : public server::RecordVisitor {
 public:
  bool on_effect(machine::Effect& effect) override {
    all.push_back(std::move(effect));
    return true;
  }
  bool on_floor(machine::Token) override { return true; }
  bool on_mark(std::string, std::string, std::uint64_t) override { return true; }
  bool on_client_floor(std::string, std::uint64_t) override { return true; }
  bool on_lock(server::LockHead&) override { return true; }
  bool on_trace(std::string, server::BreakTrace) override { return true; }
  bool on_kept(std::string, server::KeptText) override { return true; }
  bool on_closing() override { return true; }
  bool on_end(Instant) override { return true; }

  std::vector<machine::Effect> all;
};

// Two clocks differ by less than that.
Nanos surely(Duration length) { return Nanos(length) - Nanos(length) / 100; }

}  // namespace

Crowd::Crowd(simulation::World& world, SimEtcd& etcd, Send send)
    : world_(world), etcd_(etcd), send_(std::move(send)) {
  etcd_.on_put = [this](const std::string& key, const std::string& value) { note_put(key, value); };
}

void Crowd::fail(const std::string& what) {
  if (!failure_.empty()) return;
  const auto at = std::chrono::duration_cast<std::chrono::milliseconds>(world_.now);
  failure_ = "at " + std::to_string(at.count()) + " ms: " + what;
}

// --- What they do.

void Crowd::begin(std::size_t clients) {
  for (std::size_t each = 0; each < clients; ++each) {
    world_.after(world_.upto(3s), [this] { take_turn(add("", "")); });
  }
}

void Crowd::leave() {
  gone_ = true;
  for (Acquisition& one : acquisitions_) one.closed = true;
}

void Crowd::come_last() {
  last_ = add("hot", "last");
  send({last_, Kind::kAcquire, 0, {}});
}

std::size_t Crowd::add(const std::string& name, const std::string& client) {
  auto& dice = world_.dice;
  Acquisition one;
  one.id = {7, next_id_++};
  one.client = !client.empty() ? client : dice.one_in(2) ? "client-a" : "client-b";
  one.name = !name.empty() ? name : dice.one_in(3) ? "other" : "hot";
  one.issue = ++issues_[one.client];
  one.mode =
      client.empty() && dice.one_in(4) ? machine::Mode::shared() : machine::Mode::exclusive();
  one.ttl = std::chrono::milliseconds(500 + dice.below(dice.one_in(2) ? 2'000 : 6'000));
  one.waiter_ttl = std::min<Duration>(one.ttl, std::chrono::milliseconds(500 + dice.below(1500)));
  if (client.empty() && dice.one_in(3)) one.server = dice.draw();
  one.sent.push_back(world_.now);
  acquisitions_.push_back(one);
  return acquisitions_.size() - 1;
}

void Crowd::take_turn(std::size_t at) {
  if (gone_) return;
  Acquisition& one = acquisitions_[at];
  if (one.believed && world_.now >= one.believed_until) one.closed = true;
  if (world_.dice.one_in(one.believed ? 8 : 25)) one.closed = true;
  const bool silent = one.closed && world_.dice.one_in(12);  // It was killed.
  if (one.closed && (silent || ++one.farewells > kFarewells)) {
    if (acquisitions_.size() < kMostAcquisitions) {
      world_.after(world_.upto(500ms), [this] { take_turn(add("", "")); });
    }
    return;
  }
  one.closed ? say_goodbye(at) : speak(at);
  world_.after(50ms + world_.upto(350ms), [this, at] { take_turn(at); });
}

void Crowd::speak(std::size_t at) {
  Acquisition& one = acquisitions_[at];
  if (!one.answered && (one.sent.size() == 1 || world_.dice.one_in(2))) {
    return send({at, Kind::kAcquire, 0, {}});
  }
  Message renewal{at, Kind::kRenew, one.sent.size(), one.ttl};
  if (world_.dice.one_in(4)) {
    renewal.length = one.ttl + Duration(std::chrono::seconds(1 + world_.dice.below(4)));
  }
  one.sent.push_back(world_.now);
  send(renewal);
}

void Crowd::say_goodbye(std::size_t at) {
  Acquisition& one = acquisitions_[at];
  const bool held = one.believed && !world_.dice.one_in(8);
  Message message{at, held ? Kind::kRelease : Kind::kCancel, 0, {}};
  if (one.believed && one.farewells == 1 && world_.dice.one_in(6)) {
    message.kind = Kind::kKeep;
    message.seq = one.sent.size();
    message.length = std::chrono::milliseconds(50 + world_.dice.below(300));
    one.sent.push_back(world_.now);
  }
  send(message);
}

void Crowd::send(const Message& message) {
  const bool faulty = world_.loses;
  const auto server = acquisitions_[message.acquisition].server;
  const auto later = [&](Nanos most) {
    const std::uint64_t which = server ? *server : world_.dice.draw();
    world_.after(world_.upto(most), [this, message, which] { send_(which, message); });
  };
  // It does not know who leads, so it asks two.
  for (int copies = 2; copies > 0; --copies) {
    if (!faulty || !world_.percent(5)) later(faulty && world_.percent(10) ? 600ms : 3ms);
  }
  if (faulty && world_.percent(5)) later(6s);
}

// --- At the servers.

void Crowd::submit(server::Shard& shard, Instant boot, const Message& message) {
  Acquisition& one = acquisitions_[message.acquisition];
  if (message.kind == Kind::kAcquire) ++one.asked;
  const server::Request request = server::testing::request_of(one, message);
  shard.submit(boot, request,
               [this, message](const Result<server::Answer>& told) { answer(message, told); });
}

void Crowd::answer(const Message& message, const Result<server::Answer>& answer) {
  Acquisition& one = acquisitions_[message.acquisition];
  if (!answer) {
    const bool unknown = answer.error().code() == Errc::kOutcomeUnknown;
    unknown ? ++tally.unknown : ++tally.refused;
    if (!unknown && message.kind == Kind::kAcquire) ++one.refused;
    return;
  }
  check_told(one, answer->reply);
  if (answer->reply.outcome != Outcome::kHeld && answer->reply.outcome != Outcome::kWaiting) return;
  one.answered = true;
  if (answer->reply.outcome == Outcome::kWaiting) return;
  tell({message.acquisition, answer->reply.seq, answer->reply.lease, answer->reply.token});
}

void Crowd::on_push(const port::Push& push) {
  const auto found = std::find_if(acquisitions_.begin(), acquisitions_.end(),
                                  [&](const Acquisition& each) { return each.id == push.id; });
  if (found == acquisitions_.end()) return fail("a push about nobody");
  if (push.kind != port::Push::Kind::kGranted) return;
  check_told(*found, {.outcome = Outcome::kHeld, .token = push.state.token});
  tell({static_cast<std::size_t>(found - acquisitions_.begin()), push.state.seq, push.state.lease,
        push.state.token});
}

void Crowd::check_told(const Acquisition& one, const machine::Reply& reply) {
  const Recorded& recorded = recorded_[one.id];
  if (reply.outcome == Outcome::kHeld && recorded.granted != reply.token) {
    fail("a grant was told that is not in the journal");
  }
  if (reply.outcome == Outcome::kWaiting && !recorded.entered) {
    fail("a place in the queue was told that is not in the journal");
  }
  if (reply.outcome == Outcome::kCancelled && !recorded.ended) {
    fail("a cancel was told that is not in the journal");
  }
}

void Crowd::check_start(const server::Shard& shard, const std::string& term, Nanos recovered) {
  ++tally.terms;
  for (const Believer& each : believers_[term.substr(0, term.find('-'))]) {
    const Acquisition& one = acquisitions_[each.acquisition];
    ++tally.inherited;
    const auto lock = shard.machine().inspect(one.name);
    const machine::TicketImage* kept = nullptr;
    for (std::size_t at = 0; lock && at < lock->tickets.size(); ++at) {
      if (lock->tickets[at].id == one.id) kept = &lock->tickets[at];
    }
    if (kept == nullptr || !kept->held || kept->token != one.token) {
      return fail("a take-over forgot the holder of '" + one.name + "'");
    }
    const Duration left = kept->lease_end - shard.machine().now();
    if (recovered + surely(left) < each.until) {
      return fail("a take-over shortened the lease of '" + one.name + "'");
    }
  }
}

// --- On their way back.

void Crowd::tell(const News& news) {
  const bool faulty = world_.loses;
  if (faulty && world_.percent(5)) return;
  world_.after(world_.upto(faulty && world_.percent(10) ? 3s : 3ms), [this, news] { learn(news); });
}

bool Crowd::believes(const Acquisition& one) const {
  return one.believed && !one.closed && world_.now < one.believed_until;
}

void Crowd::learn(const News& news) {
  Acquisition& one = acquisitions_[news.acquisition];
  if (one.closed || news.seq >= one.sent.size()) return;
  const Nanos until = one.sent[news.seq] + surely(news.lease);
  if (world_.now >= until || (one.believed && world_.now >= one.believed_until)) return;
  if (one.believed) {
    if (news.token != one.token) fail("the token of a grant changed");
    ++tally.renewed;
  } else {
    ++tally.told;
    one.token = news.token;
    judge_token(one);
  }
  one.believed = true;
  one.believed_until = std::max(one.believed_until, until);
  check_exclusion(news.acquisition);
}

void Crowd::judge_token(const Acquisition& one) {
  const auto [place, fresh] = tokens_.try_emplace({one.name, one.token}, one.id);
  if (!fresh && place->second != one.id) fail("a token was given twice");
  const bool exclusive = one.mode == machine::Mode::exclusive();
  // Holders of one shared lock are told in any order.
  const auto& earlier = exclusive ? highest_ : highest_exclusive_;
  const auto before = earlier.find(one.name);
  if (before != earlier.end() && one.token <= before->second) fail("a token did not grow");
  highest_[one.name] = std::max(highest_[one.name], one.token);
  if (exclusive) highest_exclusive_[one.name] = one.token;
}

void Crowd::check_exclusion(std::size_t at) {
  const Acquisition& one = acquisitions_[at];
  for (std::size_t each = 0; each < acquisitions_.size(); ++each) {
    const Acquisition& other = acquisitions_[each];
    if (each == at || other.name != one.name || !believes(other)) continue;
    if (one.mode == machine::Mode::shared() && other.mode == one.mode) continue;
    fail("two count on '" + one.name + "'");
  }
}

// --- What the journal has.

void Crowd::note_put(const std::string& key, const std::string& value) {
  const std::string place = key.substr(std::string(kRoot).size());
  if (place == "head") ++tally.snapshots;
  if (place == "leader") {
    auto& believers = believers_[std::to_string(etcd_.next_revision())];
    for (std::size_t at = 0; at < acquisitions_.size(); ++at) {
      const Acquisition& one = acquisitions_[at];
      if (believes(one)) believers.push_back({at, one.believed_until});
    }
  }
  if (!place.starts_with("b/")) return;
  // A late copy may come when a snapshot has replaced the batch, and its parts are gone.
  std::uint64_t snapshot = 0;
  std::istringstream(etcd_.value_of(std::string(kRoot) + "head")) >> snapshot;
  if (stores::etcd::parse_lease(place.substr(2)) <= static_cast<std::int64_t>(snapshot)) return;
  if (!value.starts_with("PARTS ")) return note_batch(value);
  ++tally.parts;
  std::istringstream text(value.substr(value.find(' ')));
  std::int64_t parts = 0;
  text >> parts;
  std::string whole;
  for (std::int64_t part = 0; part < parts; ++part) {
    whole += etcd_.value_of(kRoot + ("p" + place.substr(1)) + "/" + stores::etcd::lease_text(part));
  }
  note_batch(whole + value.substr(value.find('\n') + 1));
}

void Crowd::note_batch(const std::string& bytes) {
  Effects effects;
  if (!server::read_record(bytes, effects)) return fail("a batch cannot be read");
  for (const machine::Effect& effect : effects.all) {
    Recorded& one = recorded_[effect.id];
    one.entered |=
        effect.kind == machine::EffectKind::kQueued || effect.kind == machine::EffectKind::kGranted;
    if (effect.kind == machine::EffectKind::kGranted) one.granted = effect.token;
    one.ended |= machine::ends_ticket(effect.kind);
  }
}

void Crowd::check_end() {
  for (const Acquisition& one : acquisitions_) {
    const bool never = one.asked > 0 && one.refused == one.asked;
    if (never && recorded_[one.id].entered) fail("what was refused is in the journal");
  }
}

}  // namespace holdfast::testing::cluster
