// Actors use the library in a simulated world. Here are the parts of their programs, which are
// coroutines, and the facts that all of them know.
#pragma once

#include <coroutine>
#include <exception>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/barrier.h"
#include "holdfast/client.h"
#include "holdfast/detail/async.h"
#include "holdfast/owner.h"
#include "holdfast/recursive_mutex.h"
#include "holdfast/semaphore.h"
#include "src/primitives/flow.h"
#include "tests/simulation/referee.h"
#include "tests/simulation/sim_store.h"
#include "tests/simulation/world.h"

namespace holdfast::simulation {

// A part of what an actor does. Runs when it is awaited.
class Program {
 public:
  struct promise_type;
  using Frame = std::coroutine_handle<promise_type>;
  struct promise_type {
    std::coroutine_handle<> next;
    Program get_return_object() { return Program(Frame::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct End {
      bool await_ready() noexcept { return false; }
      void await_suspend(Frame frame) noexcept { frame.promise().next.resume(); }
      void await_resume() noexcept {}
    };
    End final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() noexcept { std::terminate(); }
  };

  Program(Program&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Program& operator=(Program&&) = delete;
  ~Program() {
    if (frame_) frame_.destroy();
  }

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> next) {
    frame_.promise().next = next;
    frame_.resume();
  }
  void await_resume() {}

 private:
  explicit Program(Frame frame) : frame_(frame) {}
  Frame frame_;
};

// Programs of one kind share this knowledge of one another.
struct LatchFacts {
  static constexpr std::uint64_t kInitial = 3;
  std::uint64_t attempted = 0;
  std::uint64_t confirmed = 0;
  bool seen_open = false;
  std::optional<Nanos> open_since;  // Surely.
};
struct OnceFacts {
  std::set<std::string> attempted;
  std::set<std::string> stale;  // Results of runs that another run has followed.
  std::string outcome;          // The one that was surely stored.
  Nanos from{};
  Nanos until{};
};
struct BarrierFacts {
  enum class Arrival { kPending, kPassed, kMaybe, kNot };
  struct Seat {
    Arrival arrival = Arrival::kNot;
    std::uint64_t generation = 0;
  };
  std::map<Token, Seat> seats;
  std::uint32_t unsure_joins = 0;  // They have not come to a seat, as far as is known.
  std::map<std::uint64_t, Nanos> first_pass;
};
struct LeaderFacts {
  std::map<std::string, std::string> authors;        // By value: the owner's name.
  std::map<Token, std::vector<std::string>> values;  // Values of a leader, in its order.
  std::map<Token, std::pair<std::size_t, Nanos>> confirmed;
  std::optional<Token> leads;  // The actor's present belief.
};

struct Scene {
  explicit Scene(std::uint64_t seed) : world(seed), referee(world) {}

  World world;
  Referee referee;
  Site site;
  std::vector<std::unique_ptr<Process>> processes;
  std::vector<std::size_t> uses;  // The programs of this run.
  std::uint64_t serial = 0;

  std::map<std::string, std::uint64_t> versions;  // How often a name was written.
  std::map<std::string, LatchFacts> latches;
  std::map<std::string, OnceFacts> keys;
  std::uint32_t parties = 2;
  BarrierPolicy policy = BarrierPolicy::kBreak;
  BarrierFacts barrier;
  LeaderFacts leaders;
  std::optional<Nanos> job_began;
};

// The actors of one process share this.
struct House {
  House(Process& where, const std::shared_ptr<session::Core>& core);

  Client client;
  Semaphore flexible;
  RecursiveMutex recursive;
  Owner owners[2];
  struct Holds {
    std::uint32_t depth = 0;
    Token token;
    BeliefPtr belief;
  };
  Holds holds[2];
  std::size_t programs = 0;  // That have not ended.
};

template <typename T>
class Told final : public detail::Receiver<T> {
 public:
  Told(Process& process, session::Core::Done<T> done) : process_(process), done_(std::move(done)) {}
  void complete(detail::ReceiverPtr<T>, Result<T> result) override {
    process_.post(Process::kProgram,
                  [done = std::move(done_), kept = std::make_shared<Result<T>>(std::move(result))] {
                    done(std::move(*kept));
                  });
  }

 private:
  Process& process_;
  session::Core::Done<T> done_;
};

struct Actor {
  Scene& scene;
  Process& process;
  std::shared_ptr<House> house;
  std::shared_ptr<session::Core> core;
  std::string asks = {};  // Its last request.

  World& world() const { return scene.world; }
  machine::testing::Dice& dice() const { return scene.world.dice; }
  Referee& referee() const { return scene.referee; }
  Client& client() const { return house->client; }
  Nanos now() const { return scene.world.now; }
  bool percent(std::uint64_t p) const { return scene.world.percent(p); }
  // Nothing goes wrong but what the programs do to one another.
  bool calm() const { return !world().loses && !world().pauses && !world().deaths; }
  // Since then this process ran and its messages arrived.
  bool well_since(Nanos then) const { return !world().loses && process.well_since(then); }

  // To be awaited, each in a statement of its own.
  template <typename T>
  auto call(detail::Start<T> start) const {
    return primitives::asked<T>([this, start = std::move(start)](session::Core::Done<T> done) {
      start(std::make_shared<Told<T>>(process, std::move(done)));
    });
  }
  struct Sleep {
    Process& process;
    Nanos time;
    bool await_ready() const { return World::get().closing; }
    void await_suspend(std::coroutine_handle<> program) { process.sleep(time, program); }
    void await_resume() const {}
  };
  Sleep sleep(Nanos time) const { return {process, time}; }
  // Does something with what it holds; perhaps it stands still, or dies of it.
  Program work();

  // Options of one request: it waits for long, less long, or until it is cancelled.
  AcquireOptions options(const std::string& kind);
  AcquireOptions limited(const std::string& kind);

  // Fails the run unless this error may be, as things stand.
  void expect(const Error& error, const std::string& of, std::initializer_list<Errc> also = {});
  // The call is over: the store is to know nothing of it soon.
  void expect_gone(const std::string& trace);
  void expect_prompt(const std::string& trace);

  // Believes in the lease for a while, and gives it back.
  Program hold(Lease lease, Mode mode, std::string trace);
  Program give_back(Lease lease, bool expects_held, std::string trace);
};

Program use_mutex(Actor& a);
Program use_shared(Actor& a);
Program use_semaphore(Actor& a);
Program use_recursive(Actor& a);
Program use_striped(Actor& a);
Program use_several(Actor& a);
Program use_owners(Actor& a);
Program use_job(Actor& a);
Program use_latch(Actor& a);
Program use_barrier(Actor& a);
Program use_once(Actor& a);
Program campaign(Actor& a);
Program observe(Actor& a);

}  // namespace holdfast::simulation
