// Single scenes in the simulated world: who dies or stays at a moment that no test with threads
// meets, and how long the others wait for it.
#include <gtest/gtest.h>

#include "holdfast/election.h"
#include "holdfast/latch.h"
#include "src/primitives/client_access.h"
#include "tests/simulation/actor.h"

namespace holdfast::simulation {
namespace {

using detail::Async;

const Site* site_of_scenes = nullptr;

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is the registry's.
Result<std::unique_ptr<port::Store>> make_store_of_scenes(port::StoreUrl,
                                                          const port::StoreContext& context) {
  return make_sim_store(*site_of_scenes, context);
}

template <typename T>
struct Call {
  std::optional<Result<T>> answer;
  Nanos took{};
};

class ScenesSim : public ::testing::Test {
 protected:
  struct Party {
    Process* process;
    std::shared_ptr<session::Core> core;
    std::optional<Client> client;
  };

  ScenesSim() {
    scene_.site.hub = make_hub(scene_.world);
    scene_.site.on_extended = [](const std::string&, const machine::Token&, Nanos) {};
    site_of_scenes = &scene_.site;
  }
  ~ScenesSim() override {
    scene_.world.closing = true;
    for (const auto& party : parties_) {
      Process& process = *party->process;
      process.run([&] { static_cast<void>(party->core->close(0ns)); });
      do {
        process.drain_all();
        process.wake_all();
      } while (!process.is_quiet());
      process.run([&] {
        seats_.clear();
        leases_.clear();
        party->client.reset();
        party->core.reset();
      });
      process.drain_all();
    }
  }

  Party& join_world() {
    scene_.processes.push_back(std::make_unique<Process>(scene_.world, scene_.processes.size()));
    parties_.push_back(std::make_unique<Party>(Party{scene_.processes.back().get(), {}, {}}));
    Party& party = *parties_.back();
    party.process->run([&] {
      session::CoreOptions options;
      options.store_url = "simulated:";
      options.client.owner = party.process->name();
      options.client.request_timeout = 400ms;
      party.core = session::Core::make(&make_store_of_scenes, {}, options).value();
      party.client = detail::ClientAccess::make(party.core);
    });
    return party;
  }

  template <typename T>
  std::shared_ptr<Call<T>> begin(Party& by, detail::Start<T> start) {
    auto call = std::make_shared<Call<T>>();
    const Nanos begun = scene_.world.now;
    by.process->run([&] {
      start(std::make_shared<Told<T>>(*by.process, [this, call, begun](Result<T> got) {
        call->answer = std::move(got);
        call->took = scene_.world.now - begun;
      }));
    });
    return call;
  }

  template <typename Done>
  bool run_until(const Done& done, Nanos most = 5min) {
    const Nanos end = scene_.world.now + most;
    while (!done() && scene_.world.now < end && scene_.world.step()) {
    }
    return done();
  }

  template <typename T>
  Result<T> ended(const std::shared_ptr<Call<T>>& call) {
    EXPECT_TRUE(run_until([&] { return call->answer.has_value(); })) << "a call does not end";
    if (!call->answer) return Error(Errc::kClosed, "no answer");
    return std::move(*call->answer);
  }

  template <typename T, typename How>
  Result<T> ask(Party& by, How how) {
    auto call = std::make_shared<Call<T>>();
    by.process->run([&] { how([call](Result<T> got) { call->answer = std::move(got); }); });
    return ended(call);
  }

  BarrierSeat& sit(Party& who, AcquireOptions options) {
    auto joining = begin(who, Async::join(who.client->barrier("step", 2), std::move(options)));
    seats_.push_back(std::make_unique<BarrierSeat>(ended(joining).value()));
    return *seats_.back();
  }

  bool is_record_held() {
    bool held = false;
    scene_.site.hub->inspect("step/../barrier", [&](const Result<std::optional<LockInfo>>& lock) {
      held = lock && *lock && !(*lock)->holders.empty();
    });
    return held;
  }

  // `who` dies in the middle of an arrival.
  void die_over_the_record(Party& who, BarrierSeat& seat) {
    const auto arriving = begin(who, Async::arrive_and_wait(seat, {}));
    ASSERT_TRUE(run_until([&] { return is_record_held(); }));
    who.process->die();
  }

  Scene scene_{1};
  std::vector<std::unique_ptr<Party>> parties_;
  std::vector<std::unique_ptr<BarrierSeat>> seats_;
  std::vector<std::unique_ptr<Lease>> leases_;
};

TEST_F(ScenesSim, WhoDiesOverABarriersRecordIsNoticedWithinTwoSeconds) {
  Party& one = join_world();
  Party& two = join_world();
  BarrierSeat& first = sit(one, {.ttl = 3s});
  BarrierSeat& second = sit(two, {.ttl = 30s});
  die_over_the_record(one, first);
  const auto waiting = begin(two, Async::arrive_and_wait(second, {}));
  const auto passed = ended(waiting);
  ASSERT_FALSE(passed);
  EXPECT_EQ(passed.error().code(), Errc::kBroken) << passed.error().message();
  EXPECT_LT(waiting->took, 5s);
}

TEST_F(ScenesSim, AWaitForABarrierEndsThoughItsRecordIsHeld) {
  Party& one = join_world();
  Party& two = join_world();
  BarrierSeat& first = sit(one, {.ttl = 30s});
  BarrierSeat& second = sit(two, {.ttl = 30s});
  die_over_the_record(one, first);
  const auto arriving = begin(two, Async::arrive_and_wait(second, {.wait = 100ms}));
  EXPECT_EQ(ended(arriving).error().code(), Errc::kTimedOut);
  EXPECT_LT(arriving->took, 700ms);
  EXPECT_TRUE(is_record_held());
}

TEST_F(ScenesSim, AnArrivalIsTakenBackSoonThoughTheRecordIsHeld) {
  Party& one = join_world();
  Party& two = join_world();
  BarrierSeat& first = sit(one, {.ttl = 30s});
  BarrierSeat& second = sit(two, {.ttl = 30s});
  const auto waiting = begin(two, Async::arrive_and_wait(second, {.wait = 500ms}));
  run_until([] { return false; }, 490ms);
  die_over_the_record(one, first);
  EXPECT_EQ(ended(waiting).error().code(), Errc::kTimedOut);
  EXPECT_LT(waiting->took, 2500ms);
}

TEST_F(ScenesSim, TheRecordsLockIsInspectedAndBrokenByTheNameThatAListShows) {
  Party& one = join_world();
  Party& two = join_world();
  BarrierSeat& first = sit(one, {.ttl = 30s});
  die_over_the_record(one, first);
  using Locks = std::vector<LockInfo>;
  const auto locks = ask<Locks>(two, [&](session::Core::Done<Locks> done) {
    two.core->administration().list("step/", 10, std::move(done));
  });
  ASSERT_TRUE(locks) << locks.error().message();
  ASSERT_EQ(locks->size(), 1U);
  const std::string name = locks->front().name;
  EXPECT_EQ(name, "step/../barrier");
  using Info = std::optional<LockInfo>;
  const auto info = ask<Info>(two, [&](session::Core::Done<Info> done) {
    two.core->administration().inspect(name, std::move(done));
  });
  ASSERT_TRUE(info) << info.error().message();
  const Token holder = (*info)->holders.at(0).token;
  const auto broken = ask<void>(two, [&](session::Core::Done<void> done) {
    two.core->administration().break_lock(name, {holder.epoch, holder.counter}, "gone",
                                          std::move(done));
  });
  EXPECT_TRUE(broken) << broken.error().message();
  EXPECT_FALSE(is_record_held());
}

TEST_F(ScenesSim, WhoseSeatEndsWhileItWaitsForTheRecordHasNotJoined) {
  Party& one = join_world();
  Party& two = join_world();
  BarrierSeat& first = sit(one, {.ttl = 30s});
  die_over_the_record(one, first);
  const auto joining =
      begin(two, Async::join(two.client->barrier("step", 2), {.ttl = 300ms, .auto_renew = false}));
  const auto seat = ended(joining);
  ASSERT_FALSE(seat);
  EXPECT_EQ(seat.error().code(), Errc::kLost) << seat.error().message();
}

TEST_F(ScenesSim, AnObserverIsToldTheLastWordsOfALeaderThatHasGone) {
  Party& one = join_world();
  Party& two = join_world();
  std::vector<std::string> told;
  const auto observing =
      begin(two, Async::observe(two.client->election("leader"), [&](const LeaderChange& change) {
              told.push_back(change.now ? change.now->value : "nobody");
            }));
  const auto watch = ended(observing);
  ASSERT_TRUE(watch) << watch.error().message();
  auto campaigning = begin(one, Async::campaign(one.client->election("leader"), "first", {}));
  auto leads = std::make_unique<Leadership>(ended(campaigning).value());
  EXPECT_TRUE(run_until([&] { return !told.empty() && told.back() == "first"; }, 5s));
  two.process->pause(2s);
  EXPECT_TRUE(ended(begin(one, Async::proclaim(*leads, "last"))));
  one.process->run([&] { leads.reset(); });
  EXPECT_TRUE(run_until([&] { return told.back() == "nobody"; }, 10s));
  ASSERT_GE(told.size(), 3U);
  EXPECT_EQ(std::vector(told.end() - 3, told.end()),
            (std::vector<std::string>{"first", "last", "nobody"}));
}

TEST_F(ScenesSim, AWaitForALatchEndsThoughItsNameIsHeldByWhatLooksLikeIt) {
  Party& one = join_world();
  Party& two = join_world();
  auto taking = begin(one, Async::acquire(one.client->shared_mutex("start"), {.ttl = 5s}));
  leases_.push_back(std::make_unique<Lease>(ended(taking).value()));
  const auto arriving = begin(two, Async::arrive_and_wait(two.client->latch("start", 2), 1, {}));
  EXPECT_EQ(ended(arriving).error().code(), Errc::kTimedOut);
  EXPECT_GE(arriving->took, 29s);
  EXPECT_LT(arriving->took, 32s);
  EXPECT_TRUE(leases_.back()->held());
}

}  // namespace
}  // namespace holdfast::simulation
