// The engine of contenders (src/contend) in clients of a consensus store that delays and loses,
// with sessions that end, pauses and deaths. Time is a number; a seed replays a run:
//
//   HOLDFAST_SIM_SEED=N contend_simulation_test       that one; HOLDFAST_SIM_SEEDS=N: so many
//
// Checked in every run: locks exclude by their modes, first come first served, tokens grow, nobody
// is told that a lock is busy which nobody holds or waits for, "surely not applied" is true,
// nothing is left behind, every call ends, once, and everybody gets done.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/random.h"
#include "src/contend/engine.h"
#include "tests/simulation/folder_server.h"
#include "tests/simulation/seeds.h"

namespace holdfast::simulation {
namespace {

using base::BootClock;
using base::BootInstant;
using machine::AcquisitionId;
using machine::Mode;
using machine::ModeKind;
using port::AcquisitionState;
using port::AcquisitionStatus;

constexpr auto kTtl = FolderServer::kSession * 2;
constexpr auto kBeat = 700ms;
constexpr std::uint32_t kPermits = 3;

// A contender's stay in its folder, and what is known of it.
struct Stay {
  std::string lock;
  Mode mode;
  AcquisitionId upgrade_of{};
  Nanos from = Nanos::max();
  Nanos to = Nanos::max();
  bool waits = true;            // In earnest.
  Nanos held = Nanos::max();    // Since its owner was told so.
  bool refused = false;         // Its owner was told that it is busy.
  Nanos denied = Nanos::max();  // Since its owner was told that nothing is there, nor will be.
};

// Somebody thinks that it holds.
struct Belief {
  std::string lock;
  Mode mode;
  AcquisitionId id;
  AcquisitionId upgrade_of{};
  const Process* process = nullptr;
  BootInstant deadline{};
};

struct Refusal {
  AcquisitionId id;
  Nanos asked{};
  Nanos told{};
};

bool exclude(const Mode& a, const Mode& b) {
  return a.kind == ModeKind::kExclusive || b.kind == ModeKind::kExclusive;
}

class Referee {
 public:
  explicit Referee(World& world) : world_(world) {}

  const std::string& verdict() const { return verdict_; }
  void check(bool good, const std::string& what) {
    if (!good && verdict_.empty()) {
      verdict_ = std::to_string(world_.now.count() / 1000) + " us: " + what;
    }
  }
  Stay& stay(const AcquisitionId& id) { return stays_[id]; }

  void on_node(const std::string& lock, const Node& node, bool comes) {
    Stay& stay = stays_[node.key.id];
    check(stay.lock == lock, "a contender of nobody");
    if (!comes) return void(stay.to = world_.now);
    check(stay.from == Nanos::max(), lock + ": two contenders for one acquisition");
    stay.from = world_.now;
  }

  // Handles a grant that is told; `first`: not a renewal.
  void believe(const Belief& belief, const machine::Token& token, const Folder& folder,
               bool first) {
    Stay& mine = stays_[belief.id];
    if (first) {
      mine.held = world_.now;
      check(mine.from != Nanos::max(), belief.lock + ": granted without a contender");
      check_order(belief, token, folder);
    }
    std::erase_if(beliefs_, [&](const Belief& each) {
      return each.process->to_true(each.deadline) <= world_.now || each.id == belief.id;
    });
    std::uint32_t permits = belief.mode.permits;
    for (const Belief& other : beliefs_) {
      if (other.lock != belief.lock || other.id == belief.upgrade_of) continue;
      if (other.upgrade_of == belief.id) continue;
      check(!exclude(belief.mode, other.mode), belief.lock + ": two hold");
      permits += other.mode.permits;
    }
    const bool counts = belief.mode.kind == ModeKind::kPermits;
    check(!counts || permits <= kPermits, belief.lock + ": too many permits");
    beliefs_.push_back(belief);
  }
  void forget(const AcquisitionId& id) {
    std::erase_if(beliefs_, [&](const Belief& each) { return each.id == id; });
  }

  void refused(const Refusal& refusal) {
    stays_[refusal.id].refused = true;
    refusals_.push_back(refusal);
  }

  // When all is over: who was held or waited for is known.
  void check_refusals() {
    for (const Refusal& refusal : refusals_) check(justified(refusal), described(refusal));
    for (const auto& [id, stay] : stays_) {
      const bool there = stay.from != Nanos::max() && stay.to > stay.denied;
      check(!there, stay.lock + ": what was surely not applied was there");
    }
  }

 private:
  // First come, first served; and later holders have larger tokens.
  void check_order(const Belief& belief, const machine::Token& token, const Folder& folder) {
    const bool plain = belief.mode.kind == ModeKind::kExclusive && !belief.upgrade_of;
    std::set<AcquisitionId> there;
    for (const auto& [order, node] : folder.nodes) there.insert(node.key.id);
    for (const auto& [order, node] : folder.nodes) {
      if (!plain || node.key.id == belief.id || !there.contains(belief.id)) break;
      // The upgrade of a ticket that has gone is nobody's.
      const bool orphan = node.key.upgrade_of && !there.contains(node.key.upgrade_of);
      check(orphan, belief.lock + ": somebody was before it");
    }
    auto& last = last_exclusive_[belief.lock];
    check(token > last, belief.lock + ": token " + std::to_string(token.counter) + " after " +
                            std::to_string(last.counter));
    if (belief.mode.kind == ModeKind::kExclusive) last = std::max(last, token);
  }

  bool justified(const Refusal& refusal) {
    const Stay& mine = stays_.at(refusal.id);
    std::uint32_t permits = mine.mode.permits;
    for (const auto& [id, other] : stays_) {
      if (other.lock != mine.lock || id == refusal.id || id == mine.upgrade_of) continue;
      if (other.from > refusal.told || other.to < refusal.asked) continue;
      // A try whose owner was never told may have held.
      const bool told = other.refused || other.denied != Nanos::max();
      const bool counts = other.waits || other.held != Nanos::max() || !told;
      if (!counts) continue;
      if (exclude(mine.mode, other.mode)) return true;
      if (other.waits && other.held > refusal.asked) return true;  // It was in line.
      permits += other.mode.permits;
    }
    return mine.mode.kind == ModeKind::kPermits && permits > kPermits;
  }
  std::string described(const Refusal& refusal) {
    return stays_.at(refusal.id).lock + ": busy without a holder, told at " +
           std::to_string(refusal.told.count() / 1000) + " us";
  }

  World& world_;
  std::string verdict_;
  std::map<AcquisitionId, Stay> stays_;
  std::vector<Belief> beliefs_;
  std::vector<Refusal> refusals_;
  std::map<std::string, machine::Token> last_exclusive_;
};

// --- Who uses the locks.

struct Style {
  std::vector<std::string> locks;
  std::uint64_t tries = 50;     // Percent that would not wait.
  std::uint64_t upgrades = 20;  // Percent of readers that try.
  Nanos hold{};
  Nanos think{};
};

struct House;

// One program: acquires, holds, releases; again and again.
class Actor {
 public:
  Actor(World& world, Referee& referee, FolderServer& server, House& house, const Style& style,
        std::uint64_t rounds)
      : world_(world),
        referee_(referee),
        server_(server),
        house_(house),
        style_(style),
        rounds_(rounds) {}

  bool done() const { return done_; }
  bool answered() const { return open_ == 0; }
  const std::string& does() const { return does_; }

  void next();
  void on_push(const port::Push& push);
  void look();

 private:
  struct Ask {
    AcquisitionId id;
    AcquisitionId upgrade_of{};
    std::string lock;
    Mode mode;
    bool may_wait = true;
    bool held = false;
    bool leaving = false;
    bool unknown = false;
    std::uint64_t seq = 0;
    std::map<std::uint64_t, BootInstant> sent{};
    BootInstant deadline{};
    Nanos asked{};
    std::uint64_t issue = 0;
  };
  using AskPtr = std::shared_ptr<Ask>;

  void ask(const AskPtr& ask);
  void on_answer(const AskPtr& ask, const Result<AcquisitionState>& state);
  void on_held(const AskPtr& ask, const AcquisitionState& state);
  void beat(const AskPtr& ask);
  void leave(const AskPtr& ask);
  void over(const AskPtr& ask);
  void after(Nanos time, std::function<void()> then);
  AskPtr make(std::string lock, Mode mode, bool may_wait);

  World& world_;
  Referee& referee_;
  FolderServer& server_;
  House& house_;
  const Style& style_;
  std::uint64_t rounds_;
  std::vector<AskPtr> mine_;
  std::uint64_t open_ = 0;  // Calls without an answer.
  bool done_ = false;
  std::string does_;
};

struct House final : port::Listener, port::Loop {
  explicit House(Process& of) : process(of) {}
  void on_push(const port::Push& push) override {
    for (const auto& actor : actors) actor->on_push(push);
  }
  void on_pushes_missed() override {
    for (const auto& actor : actors) actor->look();
  }
  void post(port::Task task) override { process.post(Process::kLoop, std::move(task)); }

  Process& process;
  std::unique_ptr<contend::Backend> backend;
  std::shared_ptr<contend::Engine> engine;
  std::vector<std::unique_ptr<Actor>> actors;
  std::uint64_t issues = 0;
};

void Actor::after(Nanos time, std::function<void()> then) {
  world_.after(time, [this, then = std::move(then)] {
    house_.process.post(Process::kProgram, [this, then] {
      if (!world_.closing) then();
    });
  });
}

Actor::AskPtr Actor::make(std::string lock, Mode mode, bool may_wait) {
  auto ask = std::make_shared<Ask>();
  const auto bits = base::random_128();
  ask->id = {bits.high, bits.low};
  ask->lock = std::move(lock);
  ask->mode = mode;
  ask->may_wait = may_wait;
  mine_.push_back(ask);
  return ask;
}

void Actor::next() {
  if (done_ || !mine_.empty()) return;
  if (rounds_-- == 0) return void(done_ = true);
  const std::string lock = world_.dice.pick(style_.locks);
  Mode mode = Mode::exclusive();
  if (lock.front() == 'p') {
    mode = Mode::of_permits(static_cast<std::uint32_t>(1 + world_.dice.below(kPermits)), kPermits);
  } else if (lock.front() == 's' && world_.percent(60)) {
    mode = Mode::shared();
  }
  ask(make(lock, mode, !world_.percent(style_.tries)));
}

void Actor::ask(const AskPtr& ask) {
  port::AcquireRequest request;
  request.name = ask->lock;
  request.id = ask->id;
  request.mode = ask->mode;
  request.may_wait = ask->may_wait;
  request.ttl = kTtl;
  request.waiter_ttl = kTtl;
  request.upgrade_of = ask->upgrade_of;
  const BootInstant now = BootClock::now();
  request.deadline = now + 2s;
  if (ask->issue == 0) ask->issue = ++house_.issues;
  request.issue = ask->issue;
  if (ask->asked == Nanos{}) ask->asked = world_.now;
  ask->sent.try_emplace(0, now);  // As the session layer counts: from the first of repeated ones.
  Stay& stay = referee_.stay(ask->id);
  stay.lock = ask->lock;
  stay.mode = ask->mode;
  stay.upgrade_of = ask->upgrade_of;
  stay.waits = ask->may_wait;
  does_ = "asks for " + ask->lock;
  ++open_;
  house_.engine->acquire(request, now, [this, ask](const Result<AcquisitionState>& state) {
    --open_;
    if (!world_.closing) on_answer(ask, state);
  });
  // Some waits are given up.
  if (ask->may_wait && world_.percent(20)) {
    after(world_.upto(2s), [this, ask] {
      if (!ask->held) leave(ask);
    });
  }
}

void Actor::on_answer(const AskPtr& ask, const Result<AcquisitionState>& state) {
  if (ask->leaving) return;
  if (!state) {
    const Errc code = state.error().code();
    const bool sure = code == Errc::kUnavailable && !ask->unknown && ask->seq == 0;
    if (sure) referee_.stay(ask->id).denied = world_.now;
    ask->unknown = ask->unknown || code == Errc::kOutcomeUnknown;
    if (code == Errc::kOutcomeUnknown && ask->seq == 0 && world_.percent(50)) {
      return after(50ms, [this, ask] {
        if (!ask->leaving && !ask->held) this->ask(ask);
      });
    }
    return leave(ask);
  }
  switch (state->status) {
    case AcquisitionStatus::kHeld: return on_held(ask, *state);
    case AcquisitionStatus::kWaiting:
      referee_.check(ask->may_wait, ask->lock + ": who would not wait waits");
      return after(kBeat, [this, ask] { beat(ask); });
    case AcquisitionStatus::kBusy:
      referee_.check(!ask->may_wait, ask->lock + ": who waits is told busy");
      referee_.refused({ask->id, ask->asked, world_.now});
      return over(ask);
    case AcquisitionStatus::kGone: return leave(ask);
  }
}

void Actor::on_held(const AskPtr& ask, const AcquisitionState& state) {
  // As the session layer counts: the part for clock rates is taken off.
  const auto sent = ask->sent.find(state.seq);
  if (sent == ask->sent.end()) return;
  const auto sure = sent->second + state.lease - state.lease / 100;
  const bool first = !ask->held;
  ask->deadline = std::max(ask->deadline, BootInstant(sure));
  if (ask->deadline > BootClock::now()) {
    referee_.believe(
        {ask->lock, ask->mode, ask->id, ask->upgrade_of, &house_.process, ask->deadline},
        state.token, server_.now(ask->lock), first);
    ask->held = true;
  }
  after(kBeat, [this, ask] { beat(ask); });
  if (!first || !ask->held) return;
  does_ = "holds " + ask->lock;
  const bool upgrades = ask->mode.kind == ModeKind::kShared && world_.percent(style_.upgrades);
  if (upgrades) {
    after(world_.upto(style_.hold), [this, ask] {
      if (ask->leaving) return;
      const AskPtr more = make(ask->lock, Mode::exclusive(), world_.percent(50));
      more->upgrade_of = ask->id;
      this->ask(more);
      after(world_.upto(style_.hold * 2), [this, ask] { leave(ask); });
    });
    return;
  }
  after(world_.upto(style_.hold), [this, ask] { leave(ask); });
}

void Actor::beat(const AskPtr& ask) {
  if (ask->leaving || world_.closing) return;
  if (ask->held && ask->deadline <= BootClock::now()) return leave(ask);  // Lost.
  const std::uint64_t seq = ++ask->seq;
  const BootInstant now = BootClock::now();
  ask->sent[seq] = now;
  ++open_;
  house_.engine->renew({{ask->lock, ask->id, seq, kTtl, kTtl, {}}}, now, now + 1s,
                       [this, ask](const Result<std::vector<Result<AcquisitionState>>>& states) {
                         --open_;
                         if (world_.closing || ask->leaving) return;
                         if ((*states)[0]) return on_answer(ask, (*states)[0]);
                         after(kBeat, [this, ask] { beat(ask); });
                       });
}

void Actor::leave(const AskPtr& ask) {
  if (std::exchange(ask->leaving, true)) return;
  // An upgrade leaves before the shared request on which it is based.
  for (const AskPtr& each : std::vector(mine_)) {
    if (each->upgrade_of == ask->id) leave(each);
  }
  referee_.forget(ask->id);
  does_ = "leaves " + ask->lock;
  ++open_;
  house_.engine->end({ask->lock, ask->id, BootClock::now() + 1s, ask->issue},
                     [this, ask](const Result<port::EndStatus>&) {
                       --open_;
                       if (!world_.closing) over(ask);
                     });
}

void Actor::over(const AskPtr& ask) {
  std::erase(mine_, ask);
  ask->leaving = true;
  after(world_.upto(style_.think), [this] { next(); });
}

void Actor::on_push(const port::Push& push) {
  for (const AskPtr& ask : std::vector(mine_)) {
    if (ask->id != push.id || ask->leaving) continue;
    if (push.kind == port::Push::Kind::kGranted) {
      on_held(ask, push.state);
    } else {
      beat(ask);
    }
  }
}

void Actor::look() {
  for (const AskPtr& ask : std::vector(mine_)) beat(ask);
}

// --- A run.

class Run {
 public:
  explicit Run(std::uint64_t seed) : world_(seed), referee_(world_), server_(world_) {
    world_.loses = world_.percent(40);
    world_.pauses = world_.percent(30);
    world_.deaths = world_.percent(25);
    server_.head_in_listings = world_.percent(50);
    server_.tells_hand_on = world_.percent(60);
    server_.on_node = [this](const std::string& lock, const Node& node, bool comes) {
      referee_.on_node(lock, node, comes);
    };
    const char* const kinds[] = {"x", "s", "p"};
    style_.locks.emplace_back(kinds[world_.dice.below(3)]);
    if (world_.percent(30)) style_.locks.emplace_back(kinds[world_.dice.below(3)]);
    const std::uint64_t tries = world_.dice.below(3);
    style_.tries = tries * 50;
    style_.hold = world_.percent(70) ? Nanos(30ms) : Nanos(4s);
    style_.think = world_.percent(70) ? Nanos(5ms) : Nanos(500ms);
    const std::uint64_t processes = 2 + world_.dice.below(3);
    for (std::uint64_t i = 0; i < processes; ++i) settle(i);
  }

  std::string play() {
    disturb();
    while (world_.now < 5min && referee_.verdict().empty() && !all_done() && world_.step()) {
    }
    if (referee_.verdict().empty()) check_end();
    close();
    return referee_.verdict();
  }

 private:
  void settle(std::uint64_t number) {
    processes_.push_back(std::make_unique<Process>(world_, number));
    Process& process = *processes_.back();
    process.run([&] {
      houses_.push_back(std::make_unique<House>(process));
      House& house = *houses_.back();
      house.backend = make_folder_backend(server_);
      alignas(std::max_align_t) static char nothing[16];
      port::StoreContext context;
      context.loop = &house;
      context.listener = &house;
      context.io = reinterpret_cast<asio::io_context*>(nothing);
      house.engine =
          std::make_shared<contend::Engine>(*house.backend, context, FolderServer::kSession);
      house.backend->start(house.engine.get());
      for (std::uint64_t n = 1 + world_.dice.below(2); n > 0; --n) {
        house.actors.push_back(std::make_unique<Actor>(world_, referee_, server_, house, style_,
                                                       2 + world_.dice.below(5)));
        Actor& actor = *house.actors.back();
        world_.after(world_.upto(style_.think), [this, &actor, &process] {
          process.post(Process::kProgram, [this, &actor] {
            if (!world_.closing) actor.next();
          });
        });
      }
    });
  }

  void disturb() {
    for (std::uint64_t n = world_.dice.below(4); n > 0; --n) {
      Process& process = *world_.dice.pick(processes_);
      const Nanos when = world_.upto(6s);
      if (world_.deaths && world_.percent(30)) {
        world_.at(when, [&process] { process.die(); });
      } else if (world_.pauses) {
        const Nanos time = world_.percent(50) ? world_.upto(100ms) : world_.upto(8s);
        world_.at(when, [&process, time] { process.pause(time); });
      }
    }
  }

  bool all_done() const {
    return std::all_of(houses_.begin(), houses_.end(), [](const auto& house) {
      return house->process.dead() || std::all_of(house->actors.begin(), house->actors.end(),
                                                  [](const auto& actor) { return actor->done(); });
    });
  }

  void check_end() {
    for (const auto& house : houses_) {
      for (const auto& actor : house->actors) {
        referee_.check(actor->done() || house->process.dead(), "never got done: " + actor->does());
      }
    }
    // Unconfirmed requests are resolved, and the sessions of the dead end.
    const Nanos until = world_.now + 20s;
    while (world_.now < until && referee_.verdict().empty() && world_.step()) {
    }
    for (const auto& [lock, moments] : server_.folders()) {
      referee_.check(server_.now(lock).nodes.empty(), lock + ": a contender is left");
    }
    referee_.check_refusals();
  }

  void close() {
    world_.closing = true;
    for (const auto& house : houses_) {
      house->process.run([&] { house->engine->close(); });
      for (const auto& actor : house->actors) {
        referee_.check(actor->answered(), "a call has not ended");
      }
      house->process.run([&] {
        house->backend->close({});
        house->engine.reset();
      });
      house->process.drain_all();
    }
  }

  World world_;
  Referee referee_;
  FolderServer server_;
  Style style_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<House>> houses_;
};

TEST(ContendSim, TheEngineKeepsItsPromisesInEveryRun) {
  play_seeds<simulation::Run>(usually(800, 100), "contend_simulation_test");
}

}  // namespace
}  // namespace holdfast::simulation
