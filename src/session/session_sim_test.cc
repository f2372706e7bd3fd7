// The step functions against the lock machine, through a network that delays, loses, repeats and
// reorders, with a server that is away for a while, clients that pause and die and clocks that run
// at different rates. Time is a number; a seed replays a run.
//
// Checked: believed holds never overlap beyond the mode (V1), tokens of one name grow with the
// grants, nothing is left behind once all clients are done, every client gets done, and who has
// queued without a limit is sent away by nothing but a grant.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/machine/lock_machine.h"
#include "src/session/fsm/acquire_fsm.h"
#include "src/session/fsm/renewal_fsm.h"
#include "tests/simulation/seeds.h"

namespace holdfast::session {
namespace {

using namespace std::chrono_literals;
using machine::Outcome;
using port::AcquisitionStatus;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  std::uint64_t below(std::uint64_t n) {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return (state_ >> 11U) % n;
  }
  bool percent(std::uint64_t p) { return below(100) < p; }
  Nanos upto(Nanos most) {
    return Nanos(static_cast<std::int64_t>(below(static_cast<std::uint64_t>(most.count()) + 1)));
  }

 private:
  std::uint64_t state_;
};

// True time, which nobody in the simulation can read.
class World {
 public:
  explicit World(std::uint64_t seed) : dice(seed) {
    if (!dice.percent(30)) return;
    away_from_ = dice.upto(10s);
    away_until_ = away_from_ + dice.upto(10s);
  }
  bool away() const { return away_from_ <= now && now < away_until_; }
  void after(Nanos delay, std::function<void()> what) {
    events_.emplace(std::pair(now + delay, order_++), std::move(what));
  }
  bool step() {
    if (events_.empty()) return false;
    auto first = events_.extract(events_.begin());
    now = first.key().first;
    first.mapped()();
    return true;
  }

  Dice dice;
  Nanos now{};

 private:
  std::map<std::pair<Nanos, std::uint64_t>, std::function<void()>> events_;
  std::uint64_t order_ = 0;
  Nanos away_from_{};
  Nanos away_until_{};
};

struct Belief {
  std::string_view name;  // A literal: names outlive the requests that refer to them.
  machine::Mode mode;
  machine::Token token;
  Nanos from{};
  Nanos to{};
};

port::AcquisitionState to_state(const machine::Reply& reply, Nanos now) {
  port::AcquisitionState state;
  state.status = reply.outcome == Outcome::kHeld      ? AcquisitionStatus::kHeld
                 : reply.outcome == Outcome::kWaiting ? AcquisitionStatus::kWaiting
                 : reply.outcome == Outcome::kBusy    ? AcquisitionStatus::kBusy
                                                      : AcquisitionStatus::kGone;
  state.token = reply.token;
  state.seq = reply.seq;
  state.lease = reply.lease;
  state.ahead = reply.position;
  if (state.status == AcquisitionStatus::kWaiting) {
    state.next_expiry = std::chrono::duration_cast<Duration>(
        std::max(Nanos(reply.next_expiry.time_since_epoch()) - now, Nanos(0)));
  }
  return state;
}

class Client;

class Server {
 public:
  explicit Server(World& world) : world_(world), machine_(machine::Token{0, 100}) {}

  machine::Reply apply(machine::Action action) {
    effects_.clear();
    const machine::Instant at{std::chrono::floor<machine::Duration>(world_.now)};
    const machine::Reply reply = machine_.apply({at, std::move(action)}, effects_);
    machine_.check_last_step();
    push_effects();
    return reply;
  }
  void push_effects();
  bool idle() {
    apply(machine::Tick{});
    const auto image = machine_.snapshot();
    return std::all_of(image.locks.begin(), image.locks.end(),
                       [](const auto& lock) { return lock.tickets.empty(); });
  }

  std::map<machine::AcquisitionId, Client*> acquisitions;

 private:
  World& world_;
  machine::LockMachine machine_;
  machine::Effects effects_;
};

// Plays the driver's part for one acquisition after the other.
class Client {
 public:
  Client(World& world, Server& server, std::vector<Belief>& beliefs, std::uint64_t number)
      : world_(world), server_(server), beliefs_(beliefs), number_(number) {
    // Every two clocks differ by less than the one percent that is allowed for.
    rate_ppm_ = static_cast<std::int64_t>(world_.dice.below(9000)) - 4500;
    rounds_ = 1 + world_.dice.below(4);
  }

  void start() {
    later(world_.dice.upto(2s), [this] { begin(); });
  }
  bool done() const { return rounds_ == 0 || dead_; }
  std::uint64_t number() const { return number_; }
  bool dead() const { return dead_; }

  // From the network; a client that stands still sees it later.
  void deliver(const std::function<void()>& what) {
    if (dead_) return;
    if (paused_until_ > world_.now) {
      world_.after(paused_until_ - world_.now, [this, what] { deliver(what); });
    } else {
      what();
    }
  }
  void on_push(const port::Push& push) {
    if (push.id != id_) return;
    if (acquire_) {
      execute(acquire_->on_push(local(), push));
    } else if (renewal_) {
      apply(renewal_->on_doubt(local()));
    }
  }

 private:
  BootInstant local() const { return to_local(world_.now); }
  BootInstant to_local(Nanos t) const { return BootInstant(1h) + t + t / 1'000'000 * rate_ppm_; }
  Nanos to_true(BootInstant t) const {
    const Nanos since = t - BootInstant(1h);
    return since - since / (1'000'000 + rate_ppm_) * rate_ppm_;
  }
  void later(Nanos delay, const std::function<void()>& what) {
    world_.after(delay, [this, what] { deliver(what); });
  }

  void begin() {
    if (rounds_ == 0) return;
    const std::uint64_t kind = world_.dice.below(2);
    name_ = kind == 0 ? "queue" : "permits";
    mode_ = kind == 1
                ? machine::Mode::of_permits(1 + static_cast<std::uint32_t>(world_.dice.below(3)), 3)
            : world_.dice.percent(40) ? machine::Mode::shared()
                                      : machine::Mode::exclusive();
    AcquireFsm::Terms terms;
    ttl_ = std::chrono::milliseconds(300 + world_.dice.below(3000));
    terms.ttl = ttl_;
    terms.waiter_ttl = std::min<Duration>(ttl_, 1s);
    terms.may_wait = world_.dice.percent(90);
    if (world_.dice.percent(30)) terms.wait = world_.dice.upto(4s);
    terms.heartbeat = Nanos(terms.waiter_ttl) / 3;
    terms.min_left = terms.heartbeat;
    waiter_ttl_ = terms.waiter_ttl;
    patient_ = terms.may_wait && !terms.wait;
    has_queued_ = false;
    renewal_.reset();
    acquire_.emplace(terms);
    ++life_;
    execute(acquire_->start(local()));
  }
  void next_round() {
    acquire_.reset();
    renewal_.reset();
    ++life_;
    if (--rounds_ > 0) later(world_.dice.upto(500ms), [this] { begin(); });
  }

  // A request: lost, delayed or repeated on either way; no answer in time is an unknown outcome.
  // Where nobody listens it is refused at once.
  void send(const machine::Action& action,
            const std::function<void(const Result<machine::Reply>&)>& on_reply) {
    auto answered = std::make_shared<bool>(false);
    const auto answer = [answered, on_reply](const Result<machine::Reply>& reply) {
      if (std::exchange(*answered, true)) return;
      on_reply(reply);
    };
    if (world_.dice.percent(world_.away() ? 50 : 1)) {
      later(1ms, [answer] { answer(Error(Errc::kUnavailable, "no server")); });
      return;
    }
    later(300ms, [answer] { answer(Error(Errc::kOutcomeUnknown, "no reply")); });
    const int copies = world_.dice.percent(5) ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy) {
      if (world_.dice.percent(10)) continue;
      world_.after(delay(), [this, action, answer] {
        if (world_.away()) return;
        const machine::Reply reply = server_.apply(action);
        if (world_.dice.percent(10)) return;
        later(delay(), [answer, reply] { answer(reply); });
      });
    }
  }
  Nanos delay() { return world_.dice.percent(5) ? world_.dice.upto(5s) : world_.dice.upto(20ms); }

  void execute(const AcquireFsm::Action& action) {
    const std::uint64_t life = life_;
    has_queued_ = has_queued_ || acquire_->queued();
    switch (action.step) {
      case AcquireFsm::Step::kWait: break;
      case AcquireFsm::Step::kSendAcquire: {
        if (action.fresh_id) {
          if (id_) server_.acquisitions.erase(id_);
          id_ = {number_ + 1, ++ids_};
          server_.acquisitions[id_] = this;
        }
        machine::Acquire request;
        request.name = name_;
        request.id = id_;
        request.mode = mode_;
        request.may_wait = terms_may_wait();
        request.ttl = ttl_;
        request.waiter_ttl = waiter_ttl_;
        send(request, [this, life, id = id_](const Result<machine::Reply>& reply) {
          if (life == life_ && id == id_) execute(acquire_->on_reply(local(), as_state(reply)));
        });
        break;
      }
      case AcquireFsm::Step::kSendHeartbeat: heartbeat(action.seq); break;
      case AcquireFsm::Step::kSendCancel:
        send(machine::Cancel{name_, id_, 30s}, [this, life](const Result<machine::Reply>& reply) {
          if (life != life_) return;
          execute(acquire_->on_cancel_reply(local(), as_end(reply)));
        });
        break;
      case AcquireFsm::Step::kGranted: return granted();
      case AcquireFsm::Step::kFailed:
        EXPECT_FALSE(patient_ && has_queued_)
            << "sent away from the queue: " << acquire_->error()->message();
        return next_round();
      case AcquireFsm::Step::kBusy: return next_round();
    }
    wake();
  }

  void heartbeat(std::uint64_t seq) {
    send(machine::Renew{name_, id_, seq, ttl_, waiter_ttl_},
         [this, life = life_, id = id_](const Result<machine::Reply>& reply) {
           if (life != life_ || id != id_) return;
           if (acquire_) {
             execute(acquire_->on_reply(local(), as_state(reply)));
           } else if (renewal_) {
             apply(renewal_->on_reply(local(), as_state(reply)));
           }
         });
  }

  void granted() {
    const AcquireFsm won = *acquire_;
    acquire_.reset();
    RenewalFsm::Terms terms;
    terms.ttl = ttl_;
    renewal_.emplace(local(), terms, won.held(), won.log());
    belief_ = {name_, mode_, won.held().token, world_.now, {}};
    later(world_.dice.upto(world_.dice.percent(20) ? 6s : 200ms), [this, life = life_] {
      if (life == life_) release();
    });
    if (world_.dice.percent(10)) paused_until_ = world_.now + world_.dice.upto(6s);
    if (world_.dice.percent(2)) return die();
    apply(renewal_->on_tick(local()));
  }
  void end_belief() {
    belief_.to = std::min(world_.now, to_true(renewal_->deadline()));
    if (belief_.to > belief_.from) beliefs_.push_back(belief_);
  }
  void die() {
    // Its belief dies with it: only the lease is left to run out.
    end_belief();
    dead_ = true;
  }
  void release() {
    end_belief();
    give_back(name_, id_, 20);
    next_round();
  }
  void give_back(std::string_view name, machine::AcquisitionId id, int tries) {
    if (tries == 0) return;
    send(machine::Release{name, id, 30s},
         [this, name, id, tries](const Result<machine::Reply>& reply) {
           if (!reply) give_back(name, id, tries - 1);
         });
  }
  void apply(const RenewalFsm::Action& action) {
    if (action.step == RenewalFsm::Step::kLost) {
      end_belief();
      return next_round();
    }
    if (action.step == RenewalFsm::Step::kSend) heartbeat(action.seq);
    wake();
  }

  void wake() {
    const BootInstant when = acquire_ ? acquire_->wake_at() : renewal_->wake_at();
    if (when == BootInstant::max()) return;
    const Nanos delay_to = std::max(to_true(when) - world_.now, Nanos(0)) + 1us;
    later(delay_to, [this, life = life_] {
      if (life != life_) return;
      if (acquire_) {
        if (local() >= acquire_->wake_at()) execute(acquire_->on_timer(local()));
      } else if (renewal_ && local() >= renewal_->wake_at()) {
        apply(renewal_->on_tick(local()));
      }
    });
  }

  bool terms_may_wait() const { return acquire_->may_wait(); }
  Result<port::AcquisitionState> as_state(const Result<machine::Reply>& reply) const {
    if (!reply) return reply.error();
    return to_state(*reply, world_.now);
  }
  static Result<port::EndStatus> as_end(const Result<machine::Reply>& reply) {
    if (!reply) return reply.error();
    return reply->outcome == Outcome::kReleased    ? port::EndStatus::kReleased
           : reply->outcome == Outcome::kCancelled ? port::EndStatus::kCancelled
                                                   : port::EndStatus::kGone;
  }

  World& world_;
  Server& server_;
  std::vector<Belief>& beliefs_;
  const std::uint64_t number_;
  std::int64_t rate_ppm_ = 0;
  std::uint64_t rounds_ = 0;
  std::uint64_t ids_ = 0;
  std::uint64_t life_ = 0;
  bool dead_ = false;
  Nanos paused_until_{};
  bool patient_ = false;
  bool has_queued_ = false;
  std::string_view name_;
  machine::Mode mode_;
  Duration ttl_{};
  Duration waiter_ttl_{};
  machine::AcquisitionId id_;
  Belief belief_;
  std::optional<AcquireFsm> acquire_;
  std::optional<RenewalFsm> renewal_;
};

void Server::push_effects() {
  for (const machine::Effect& effect : effects_) {
    const bool granted = effect.kind == machine::EffectKind::kGranted;
    if (!granted) continue;
    const auto found = acquisitions.find(effect.id);
    if (found == acquisitions.end() || world_.dice.percent(20)) continue;
    port::Push push{granted ? port::Push::Kind::kGranted : port::Push::Kind::kHint, effect.id, {}};
    push.state = {AcquisitionStatus::kHeld, effect.token, effect.seq, effect.lease, 0, {}};
    Client* const client = found->second;
    world_.after(world_.dice.percent(5) ? world_.dice.upto(5s) : world_.dice.upto(20ms),
                 [client, push] { client->deliver([client, push] { client->on_push(push); }); });
  }
}

bool may_overlap(const Belief& a, const Belief& b) {
  return a.mode.kind == machine::ModeKind::kShared && b.mode.kind == machine::ModeKind::kShared;
}

void check_beliefs(const std::vector<Belief>& beliefs) {
  for (std::size_t i = 0; i < beliefs.size(); ++i) {
    const Belief& a = beliefs[i];
    std::uint32_t permits = a.mode.permits;
    for (std::size_t j = 0; j < beliefs.size(); ++j) {
      const Belief& b = beliefs[j];
      if (i == j || a.name != b.name) continue;
      ASSERT_NE(a.token, b.token) << "a token given twice on " << a.name;
      // The holders when `a` began.
      if (b.from > a.from || b.to <= a.from) continue;
      if (a.mode.kind == machine::ModeKind::kPermits) {
        permits += b.mode.permits;
      } else {
        ASSERT_TRUE(may_overlap(a, b))
            << a.name << ": token " << a.token.counter << " began at " << a.from.count()
            << " while token " << b.token.counter << " was believed held until " << b.to.count();
      }
    }
    if (a.mode.kind == machine::ModeKind::kPermits) {
      ASSERT_LE(permits, a.mode.capacity) << "too many permits at " << a.from.count();
    }
  }
}

std::size_t run(std::uint64_t seed) {
  World world(seed);
  Server server(world);
  std::vector<Belief> beliefs;
  std::vector<std::unique_ptr<Client>> clients;
  const std::uint64_t count = 2 + world.dice.below(7);
  for (std::uint64_t i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<Client>(world, server, beliefs, i));
    clients.back()->start();
  }
  while (world.now < 20min && world.step()) {
  }
  check_beliefs(beliefs);
  for (const auto& client : clients) {
    EXPECT_TRUE(client->done()) << "client " << client->number() << " never got done";
  }
  world.now += 1min;  // The leases of dead clients run out.
  EXPECT_TRUE(server.idle()) << "a ticket was left behind";
  return beliefs.size();
}

TEST(SessionSim, BeliefsNeverOverlapAndEverybodyGetsDone) {
  static std::size_t worlds;
  static std::size_t holds;
  struct SessionRun {
    std::string play() const {
      ++worlds;
      holds += run(seed);
      return "";
    }
    std::uint64_t seed;
  };
  simulation::play_seeds<SessionRun>(simulation::usually(2'000, 200), "ctest -R session_test");
  // A simulation in which nobody ever held would prove nothing.
  EXPECT_GE(holds, worlds);
}

}  // namespace
}  // namespace holdfast::session
