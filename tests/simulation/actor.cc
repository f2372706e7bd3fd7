#include "tests/simulation/actor.h"

#include <algorithm>

#include "src/primitives/client_access.h"

namespace holdfast::simulation {

House::House(Process& where, const std::shared_ptr<session::Core>& core)
    : client(detail::ClientAccess::make(core)),
      flexible(client.semaphore("flexible", 3)),
      recursive(client.recursive_mutex("recursive", 8)),
      owners{Owner(where.name() + "/x"), Owner(where.name() + "/y")} {}

Program Actor::work() {
  co_await sleep(percent(80) ? world().upto(200ms) : world().upto(5s));
  if (world().pauses && percent(10)) process.pause(world().upto(6s));
  if (world().deaths && percent(3)) process.die();
  if (percent(50)) co_await sleep(world().upto(50ms));
}

AcquireOptions Actor::options(const std::string& kind) {
  AcquireOptions options = limited(kind);
  if (percent(50)) options.wait.reset();
  return options;
}

AcquireOptions Actor::limited(const std::string& kind) {
  AcquireOptions options;
  options.ttl =
      std::chrono::milliseconds(percent(20) ? 150 + dice().below(150) : 300 + dice().below(2700));
  options.wait = std::chrono::milliseconds(dice().below(4000));
  options.trace_id = asks = kind + std::to_string(++scene.serial);
  if (percent(20)) {
    std::stop_source stop;
    options.cancel = stop.get_token();
    world().after(world().upto(3s), [at = &process, stop, this] {
      if (world().closing) return;
      at->post(Process::kProgram, [stop]() mutable { stop.request_stop(); });
    });
  }
  return options;
}

void Actor::expect(const Error& error, const std::string& of, std::initializer_list<Errc> also) {
  const bool known = std::find(also.begin(), also.end(), error.code()) != also.end();
  bool may_be = known;
  switch (error.code()) {
    case Errc::kTimedOut:
    case Errc::kCancelled:
    case Errc::kClosed: may_be = true; break;
    case Errc::kLost:
    case Errc::kUnavailable:
    case Errc::kOutcomeUnknown: may_be = known || !calm(); break;
    default: break;
  }
  referee().check(may_be, process.name() + ": " + of + " said: " + error.message());
}

void Actor::expect_gone(const std::string& trace) {
  world().after(1500ms, [this, trace, then = now()] {
    if (!well_since(then)) return;
    referee().check(!referee().is_known(trace), trace + ": its ticket was left behind");
  });
}

// It was told of its grant in time.
void Actor::expect_prompt(const std::string& trace) {
  const auto granted = referee().granted_at(trace);
  if (!granted || !well_since(*granted)) return;
  referee().check(
      now() - *granted <= Referee::kSafetyPoll,
      trace + " was told of its grant after " + std::to_string((now() - *granted) / 1ms) + " ms");
}

Program Actor::hold(Lease lease, Mode mode, std::string trace) {
  const BeliefPtr belief = referee().believe(process, lease, mode);
  if (mode == Mode::exclusive()) ++scene.versions[lease.name()];
  Program working = work();
  co_await working;
  const bool held = lease.held();
  referee().check(held || !calm(), trace + ": its lease was lost though nothing went wrong");
  referee().doubt(belief, held);
  Program giving = give_back(std::move(lease), held, std::move(trace));
  co_await giving;
}

Program Actor::give_back(Lease lease, bool expects_held, std::string trace) {
  const auto held = detail::ticket(lease);
  if (percent(30)) {
    { const Lease dropped = std::move(lease); }
    expect_gone(trace);
    co_return;
  }
  auto releasing = call<void>(detail::start<void>(
      [held](const session::Core::Done<void>& done) { held->core->release(held, done); }));
  const Result<void> released = co_await releasing;
  if (!released) expect(released.error(), "release");
  if (!released && calm()) {
    referee().check(!expects_held, trace + ": its release failed: " + released.error().message());
  }
  expect_gone(trace);
}

}  // namespace holdfast::simulation
