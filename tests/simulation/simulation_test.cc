// All primitives mixed, in processes that share one store over a network which delays and loses,
// with pauses and deaths. Time is a number; a seed replays a run:
//
//   HOLDFAST_SIM_SEED=N simulation_test       that one; HOLDFAST_SIM_SEEDS=N: so many
//
// Checked in every run: locks exclude by their modes (what is believed and what the store says),
// first come first served, tokens grow, who waits for what it could have does not wait for longer
// than the safety poll, no ticket is left behind, every call ends, once; and what each primitive
// promises of its own (the programs say it where they check it).
#include <algorithm>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

#include "tests/simulation/actor.h"
#include "tests/simulation/seeds.h"

namespace holdfast::simulation {
namespace {

// A coroutine that belongs to nobody.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

using Use = Program (*)(Actor&);
constexpr Use kUses[] = {&use_mutex,  &use_shared,  &use_semaphore, &use_recursive, &use_striped,
                         &use_owners, &use_several, &use_job,       &use_latch,     &use_barrier,
                         &use_once,   &campaign,    &observe};

// All of them, or a few, which then meet more often.
std::vector<std::size_t> choose_uses(World& world) {
  std::vector<std::size_t> uses;
  if (world.percent(40)) {
    for (std::size_t i = 0; i < std::size(kUses); ++i) uses.push_back(i);
  } else {
    for (std::uint64_t n = 1 + world.dice.below(3); n > 0; --n) {
      uses.push_back(world.dice.below(std::size(kUses)));
    }
    // Nobody observes what nobody wants.
    if (kUses[uses.front()] == &observe) uses.push_back(std::size(kUses) - 2);
  }
  return uses;
}

Detached live(Actor& a, std::uint64_t rounds) {
  co_await a.sleep(a.world().upto(1s));
  for (; rounds > 0 && !a.world().closing; --rounds) {
    Program program = kUses[a.dice().pick(a.scene.uses)](a);
    co_await program;
    co_await a.sleep(a.world().upto(300ms));
  }
  --a.house->programs;
}

const Site* the_site = nullptr;

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is the registry's.
Result<std::unique_ptr<port::Store>> make_store(port::StoreUrl, const port::StoreContext& context) {
  return make_sim_store(*the_site, context);
}

class Run {
 public:
  explicit Run(std::uint64_t seed) : scene_(seed) {
    World& world = scene_.world;
    world.loses = world.percent(40);
    world.pauses = world.percent(40);
    world.deaths = world.percent(30);
    scene_.parties = static_cast<std::uint32_t>(2 + world.dice.below(2));
    scene_.policy = world.percent(50) ? BarrierPolicy::kBreak : BarrierPolicy::kLeave;
    scene_.uses = choose_uses(world);
    scene_.site.hub = make_hub(world);
    scene_.site.multi = world.percent(50);
    scene_.site.on_extended = [this](const std::string& name, const machine::Token& token,
                                     Nanos until) {
      scene_.referee.on_extended(name, token, until);
    };
    the_site = &scene_.site;
    watch_ = watch_store();
    const std::uint64_t processes = 2 + world.dice.below(3);
    for (std::uint64_t i = 0; i < processes; ++i) settle(i);
  }

  // Describes the problem; empty: none.
  std::string play() {
    World& world = scene_.world;
    while (world.now < 10min && scene_.referee.verdict().empty() && !all_done() && world.step()) {
    }
    if (scene_.referee.verdict().empty()) check_end();
    close();
    if (scene_.referee.verdict().empty() && left_ > 0) return "a call has not ended";
    return scene_.referee.verdict();
  }

 private:
  struct Home {
    Process* process;
    std::shared_ptr<session::Core> core;
    std::shared_ptr<House> house;
    std::vector<std::unique_ptr<Actor>> actors;
  };

  port::WatchHandle watch_store() {
    static Direct direct;
    mailbox_ = std::make_shared<stores::Mailbox>();
    mailbox_->loop = &direct;
    return scene_.site.hub->watch(mailbox_, "",
                                  [this](const LockEvent& e) { scene_.referee.on_event(e); });
  }
  struct Direct final : port::Loop {
    void post(port::Task task) override { task(); }
  };

  void settle(std::uint64_t number) {
    scene_.processes.push_back(std::make_unique<Process>(scene_.world, number));
    Process& process = *scene_.processes.back();
    scene_.referee.know(process.name(), process);
    Home home{&process, nullptr, nullptr, {}};
    process.run([&] {
      session::CoreOptions options;
      options.store_url = "simulated:";
      options.client.owner = process.name();
      options.client.request_timeout = 400ms;
      home.core = session::Core::make(&make_store, {}, options).value();
      home.house = std::make_shared<House>(process, home.core);
      for (std::uint64_t actors = 1 + scene_.world.dice.below(2); actors > 0; --actors) {
        home.actors.push_back(
            std::make_unique<Actor>(Actor{scene_, process, home.house, home.core}));
        ++home.house->programs;
        live(*home.actors.back(), 1 + scene_.world.dice.below(3));
      }
    });
    homes_.push_back(std::move(home));
  }

  bool all_done() const {
    return std::all_of(homes_.begin(), homes_.end(), [](const Home& home) {
      return home.house->programs == 0 || home.process->dead();
    });
  }

  // Lists holders and waiters.
  std::string described() {
    std::string text;
    scene_.site.hub->list("", 100, [&](const Result<std::vector<LockInfo>>& locks) {
      for (const LockInfo& lock : *locks) {
        text += "; " + lock.name + ":";
        for (const auto& holder : lock.holders) {
          text += " " + holder.who.owner + "." + holder.who.trace_id;
        }
        for (const auto& waiter : lock.waiters) {
          text += " (" + waiter.who.owner + "." + waiter.who.trace_id + ")";
        }
      }
    });
    return text;
  }

  // Everybody has done its work, and the longest lease ends: nothing is left in the store.
  void check_end() {
    World& world = scene_.world;
    for (const Home& home : homes_) {
      std::string asked;
      for (const auto& actor : home.actors) asked += " " + actor->asks;
      scene_.referee.check(home.house->programs == 0 || home.process->dead(),
                           home.process->name() + " never got done:" + asked + described());
    }
    scene_.referee.check_beliefs();
    const Nanos until = world.now + 25s;
    while (world.now < until && world.step()) {
    }
    world.now = std::max(world.now, until);
    scene_.site.hub->inspect("nothing", [](const Result<std::optional<LockInfo>>&) {});
    for (const auto& lock : scene_.site.hub->snapshot().locks) {
      scene_.referee.check(lock.tickets.empty(), lock.name + ": a ticket is left");
    }
  }

  // Every call that is under way comes to an end, those of the dead as well.
  void close() {
    scene_.world.closing = true;
    for (Home& home : homes_) {
      Process& process = *home.process;
      process.run([&] { static_cast<void>(home.core->close(0ns)); });
      do {
        process.drain_all();
        process.wake_all();
      } while (!process.is_quiet());
      left_ += home.house->programs;
      process.run([&] {
        home.actors.clear();
        home.house.reset();
        home.core.reset();
      });
      process.drain_all();
    }
  }

  Scene scene_;
  std::vector<Home> homes_;
  stores::MailboxPtr mailbox_;
  port::WatchHandle watch_;
  std::size_t left_ = 0;  // Programs that did not end.
};

TEST(PrimitivesSim, KeepTheirPromisesInEveryRun) {
  play_seeds<simulation::Run>(usually(2'000, 200), "simulation_test");
}

}  // namespace
}  // namespace holdfast::simulation
