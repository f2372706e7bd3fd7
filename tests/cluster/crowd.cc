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
  bool on_closing() override { return closes = true; }
  bool on_end(Instant) override { return true; }

  std::vector<machine::Effect> all;
  bool closes = false;
};

// Two clocks differ by less than that.
Nanos surely(Nanos length) { return length - length / 100; }

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
  one.lengthens = dice.one_in(2);
  one.stays = client.empty() && dice.one_in(3);
  one.loyal = client.empty() && dice.one_in(2);
  if (one.loyal && dice.one_in(2)) one.server = dice.draw();
  if (one.loyal && dice.one_in(2)) {
    one.ttl += 6s;
    one.lengthens = false;
  }
  one.sent.push_back(world_.now);
  acquisitions_.push_back(one);
  return acquisitions_.size() - 1;
}

void Crowd::take_turn(std::size_t at) {
  if (gone_) return;
  Acquisition& one = acquisitions_[at];
  if (one.believed && world_.now >= one.believed_until) one.closed = true;
  if (world_.dice.one_in(!one.believed ? 25 : one.stays ? 80 : 8)) one.closed = true;
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
  if (one.lengthens && world_.dice.one_in(3)) {
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

void Crowd::submit(server::Shard& shard, Instant boot, std::uint64_t which,
                   const Message& message) {
  Acquisition& one = acquisitions_[message.acquisition];
  // A later one cannot be what the journal has.
  const bool enters = message.kind == Kind::kAcquire && !recorded_[one.id].entered;
  const bool leaves =
      (message.kind == Kind::kRelease || message.kind == Kind::kCancel) && !one.left;
  if (enters) ++one.enters.asked;
  if (leaves) ++one.leaves.asked;
  const server::Request request = server::testing::request_of(one, message);
  shard.submit(boot, request, [=, this](const Result<server::Answer>& told) {
    Acquisition& asker = acquisitions_[message.acquisition];
    if (told) {
      if (asker.loyal && !asker.server) asker.server = which;
      return answer(message, *told);
    }
    const bool unknown = told.error().code() == Errc::kOutcomeUnknown;
    unknown ? ++tally.unknown : ++tally.refused;
    if (unknown) return;
    if (enters) ++asker.enters.refused;
    if (leaves) ++asker.leaves.refused;
    check_refused(asker);
  });
}

void Crowd::answer(const Message& message, const server::Answer& answer) {
  Acquisition& one = acquisitions_[message.acquisition];
  check_told(one, answer.reply);
  if (answer.reply.outcome != Outcome::kHeld && answer.reply.outcome != Outcome::kWaiting) return;
  one.answered = true;
  if (answer.reply.outcome == Outcome::kWaiting) return;
  tell({message.acquisition, answer.reply.seq, answer.reply.lease, answer.reply.token});
}

Crowd::Acquisition* Crowd::find(const machine::AcquisitionId& id) {
  const auto found = std::find_if(acquisitions_.begin(), acquisitions_.end(),
                                  [&](const Acquisition& each) { return each.id == id; });
  return found == acquisitions_.end() ? nullptr : &*found;
}

void Crowd::on_push(const port::Push& push) {
  const Acquisition* const found = find(push.id);
  if (found == nullptr) return fail("a push about nobody");
  if (push.kind != port::Push::Kind::kGranted) return;
  check_told(*found, {.outcome = Outcome::kHeld, .token = push.state.token});
  tell({static_cast<std::size_t>(found - acquisitions_.data()), push.state.seq, push.state.lease,
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

void Crowd::check_refused(const Acquisition& one) {
  const bool entered = one.enters.none_applied() && recorded_[one.id].entered;
  const bool left = one.leaves.none_applied() && one.left;
  if (entered || left) fail("what was refused is in the journal");
}

// The shard may know no such lease.
std::optional<Nanos> Crowd::left_of(const server::Shard& shard, const Acquisition& one) {
  const auto lock = shard.machine().inspect(one.name);
  for (std::size_t at = 0; lock && at < lock->tickets.size(); ++at) {
    const machine::TicketImage& each = lock->tickets[at];
    if (each.id != one.id || !each.held || each.token != one.token) continue;
    return each.lease_end - shard.machine().now();
  }
  return std::nullopt;
}

void Crowd::check_start(const server::Shard& shard, const std::string& term, Nanos recovered) {
  ++tally.terms;
  const std::string number = term.substr(0, term.find('-'));
  for (const Believer& each : believers_[number]) {
    const Acquisition& one = acquisitions_[each.acquisition];
    ++tally.inherited;
    const auto left = left_of(shard, one);
    if (!left) return fail("a take-over forgot the holder of '" + one.name + "'");
    if (recovered + surely(*left) < each.until) {
      return fail("a take-over shortened the lease of '" + one.name + "'");
    }
  }
  // An earlier leader may hear only now that its first record is committed.
  if (std::stoull(number) < newest_term_) return;
  newest_term_ = std::stoull(number);
  newest_ = &shard;
  for (const Acquisition& each : acquisitions_) {
    if (believes(each)) check_newest(each);
  }
}

void Crowd::forget(const server::Shard* shard) {
  if (newest_ == shard) newest_ = nullptr;
}

// An earlier leader may have answered.
void Crowd::check_newest(const Acquisition& one) {
  if (newest_ == nullptr) return;
  const auto left = left_of(*newest_, one);
  if (!left) return fail("the leader forgot the holder of '" + one.name + "'");
  if (world_.now + surely(*left) >= one.believed_until) return;
  fail("the leader ends the lease of '" + one.name + "' too early");
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

bool Crowd::somebody_counts_on_a_lease() const {
  return std::any_of(acquisitions_.begin(), acquisitions_.end(),
                     [this](const Acquisition& each) { return believes(each); });
}

bool Crowd::somebody_depends_on_one_server() const {
  return std::any_of(acquisitions_.begin(), acquisitions_.end(), [this](const Acquisition& each) {
    const bool long_enough = each.believed_until > world_.now + 3s;
    return believes(each) && each.server && !each.lengthens && long_enough;
  });
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
  check_newest(one);
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
  if (place == "head") note_head(value);
  if (place == "leader") {
    if (on_lead) on_lead(value);
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

// A late copy may bring a head, and what it stands for may be gone.
void Crowd::note_head(const std::string& text) {
  ++tally.snapshots;
  std::int64_t batch = 0;
  std::int64_t count = 0;
  std::istringstream(text) >> batch >> count;
  const std::string folder = kRoot + ("c/" + stores::etcd::lease_text(batch)) + "/";
  for (std::int64_t chunk = 0; chunk < count; ++chunk) {
    if (!etcd_.value_of(folder + stores::etcd::lease_text(chunk)).empty()) continue;
    fail("a snapshot is valid, and a chunk of it is gone");
  }
}

void Crowd::note_batch(const std::string& bytes) {
  Effects effects;
  bool has_entry = false;
  if (!server::read_record(bytes, effects)) return fail("a batch cannot be read");
  for (const machine::Effect& effect : effects.all) {
    Recorded& one = recorded_[effect.id];
    const bool enters =
        effect.kind == machine::EffectKind::kQueued || effect.kind == machine::EffectKind::kGranted;
    has_entry |= enters && !one.entered;
    one.entered |= enters;
    if (effect.kind == machine::EffectKind::kGranted) one.granted = effect.token;
    one.ended |= machine::ends_ticket(effect.kind);
    Acquisition* const its = find(effect.id);
    if (its == nullptr) continue;
    its->left |= effect.kind == machine::EffectKind::kReleased ||
                 effect.kind == machine::EffectKind::kCancelled;
    check_refused(*its);
  }
  if (has_entry && on_entry) on_entry();
  if (effects.closes && on_closing) on_closing();
}

}  // namespace holdfast::testing::cluster
