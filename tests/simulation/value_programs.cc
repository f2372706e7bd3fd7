// Actors use the primitives that keep a value beside a lock.
#include <algorithm>

#include "holdfast/barrier.h"
#include "holdfast/election.h"
#include "holdfast/latch.h"
#include "holdfast/once.h"
#include "tests/simulation/actor.h"

namespace holdfast::simulation {

using detail::Async;

namespace {

// A waiter for a value learns within this time that it has changed: it is told, and looks.
constexpr Nanos kLearns = 150ms;

std::uint64_t left_of(std::uint64_t counted) {
  return LatchFacts::kInitial - std::min(LatchFacts::kInitial, counted);
}

Program count_down(Actor& a, Latch latch, LatchFacts& facts) {
  const std::uint64_t n = 1 + a.dice().below(2);
  facts.attempted += n;
  const std::uint64_t most = left_of(facts.confirmed + n);
  auto counting = a.call(Async::count_down(latch, n));
  const Result<std::uint64_t> left = co_await counting;
  if (!left) {
    a.expect(left.error(), "count_down", {Errc::kLost});
    co_return;
  }
  facts.confirmed += n;
  if (!facts.open_since && facts.confirmed >= LatchFacts::kInitial) facts.open_since = a.now();
  a.referee().check(*left <= most,
                    latch.name() + ": " + std::to_string(*left) + " were left, a count is missing");
  a.referee().check(*left >= left_of(facts.attempted), latch.name() + ": a count went down twice");
}

Program await_opening(Actor& a, Latch latch, LatchFacts& facts) {
  const Nanos begun = a.now();
  const bool was_open = facts.seen_open;
  const AcquireOptions options = a.limited("latch");
  auto waiting = a.call(Async::wait(latch, options));
  const Result<void> opened = co_await waiting;
  const auto late = [&] {
    if (!facts.open_since) return false;
    const Nanos since = std::max(begun, *facts.open_since);
    return a.well_since(since) && a.now() - since > kLearns;
  };
  a.referee().check(!late(), latch.name() + ": somebody waits though it is open");
  if (!opened) {
    a.expect(opened.error(), "wait for a latch");
    a.referee().check(!was_open || opened.error().code() != Errc::kTimedOut ||
                          *options.wait < 100ms || !a.well_since(begun),
                      latch.name() + ": it was open, and is shut");
    co_return;
  }
  facts.seen_open = true;
  a.referee().check(facts.attempted >= LatchFacts::kInitial,
                    latch.name() + ": open before all have counted");
}

}  // namespace

Program use_latch(Actor& a) {
  const std::string name = a.percent(50) ? "latch/0" : "latch/1";
  Latch latch = a.client().latch(name, LatchFacts::kInitial);
  LatchFacts& facts = a.scene.latches[name];
  const std::uint64_t what = a.dice().below(10);
  if (what < 5) {
    Program counting = count_down(a, latch, facts);
    co_await counting;
  } else if (what < 8) {
    Program waiting = await_opening(a, latch, facts);
    co_await waiting;
  } else {
    const bool was_open = facts.seen_open;
    const std::uint64_t most = left_of(facts.confirmed);
    auto looking = a.call(Async::count(latch));
    const Result<std::uint64_t> count = co_await looking;
    if (!count) {
      a.expect(count.error(), "count of a latch");
      co_return;
    }
    a.referee().check(*count <= most && *count >= left_of(facts.attempted),
                      name + ": a count of " + std::to_string(*count));
    a.referee().check(!was_open || *count == 0, name + ": it was open, and is shut");
  }
}

namespace {

using Arrival = BarrierFacts::Arrival;

Program arrive(Actor& a, BarrierSeat& seat, bool& goes_on) {
  BarrierFacts& facts = a.scene.barrier;
  BarrierFacts::Seat& mine = facts.seats[seat.token()];
  const BarrierFacts::Seat before = mine;
  mine.arrival = Arrival::kPending;
  const Nanos begun = a.now();
  auto arriving = a.call(Async::arrive_and_wait(seat, a.limited("arrival")));
  const Result<std::uint64_t> passed = co_await arriving;
  goes_on = passed.has_value();
  if (!passed) {
    const Errc code = passed.error().code();
    const bool taken_back =
        code == Errc::kTimedOut || code == Errc::kCancelled || code == Errc::kBroken;
    mine.arrival = taken_back ? Arrival::kNot : Arrival::kMaybe;
    a.expect(passed.error(), "arrival", {Errc::kBroken});
    goes_on = taken_back && a.percent(50);
    co_return;
  }
  mine = {Arrival::kPassed, *passed};
  a.referee().check(before.arrival != Arrival::kPassed || before.generation < *passed,
                    "barrier: a seat passed generation " + std::to_string(*passed) + " twice");
  const bool without_the_gone = a.scene.policy == BarrierPolicy::kLeave;
  const auto is_there = [&](const auto& entry) {
    const BarrierFacts::Seat& other = entry.second;
    if (without_the_gone && !a.referee().is_held("barrier", entry.first)) return true;
    return other.arrival == Arrival::kPending || other.arrival == Arrival::kMaybe ||
           (other.arrival == Arrival::kPassed && other.generation >= *passed);
  };
  auto there = std::count_if(facts.seats.begin(), facts.seats.end(), is_there);
  if (without_the_gone) there += facts.unsure_joins;
  a.referee().check(there >= a.scene.parties, "barrier: generation " + std::to_string(*passed) +
                                                  " passed by " + std::to_string(there) + " only");
  const auto first = facts.first_pass.emplace(*passed, a.now()).first->second;
  const Nanos since = std::max(first, begun);
  a.referee().check(!a.well_since(since) || a.now() - since <= kLearns,
                    "barrier: somebody waited on, though it was open");
}

}  // namespace

Program use_barrier(Actor& a) {
  Barrier barrier = a.client().barrier("barrier", a.scene.parties, a.scene.policy);
  BarrierFacts& facts = a.scene.barrier;
  const AcquireOptions options = a.limited("seat");
  ++facts.unsure_joins;
  auto joining = a.call(Async::join(barrier, options));
  Result<BarrierSeat> seat = co_await joining;
  if (seat) {
    --facts.unsure_joins;
    facts.seats[seat->token()] = {};
  }
  if (!seat) {
    a.expect(seat.error(), "join");
    a.expect_gone(options.trace_id);
    co_return;
  }
  // A record takes in who has a seat, and the answer comes soon after that.
  const Nanos before = std::max(a.now() - 200ms, Nanos{});
  a.referee().check(
      !a.well_since(before) || !a.referee().ended_before("barrier", seat->token(), before),
      options.trace_id + ": joined without a seat");
  const BeliefPtr belief =
      a.referee().believe(a.process, seat->lease(), Mode::permits(1, a.scene.parties));
  bool goes_on = true;
  for (std::uint64_t rounds = 1 + a.dice().below(3); rounds > 0 && goes_on; --rounds) {
    Program working = a.work();
    co_await working;
    Program arriving = arrive(a, *seat, goes_on);
    co_await arriving;
    if (!goes_on && a.percent(30)) {
      auto resetting = a.call(Async::reset(barrier));
      const Result<void> reset = co_await resetting;
      if (!reset) a.expect(reset.error(), "reset", {Errc::kLost});
    }
  }
  a.referee().doubt(belief, seat->held());
  if (a.percent(50)) co_return;  // To the others that is a crash.
  facts.seats[seat->token()].arrival = Arrival::kMaybe;
  auto leaving = a.call(Async::arrive_and_leave(*seat));
  const Result<void> left = co_await leaving;
  if (!left) a.expect(left.error(), "leave", {Errc::kBroken});
}

namespace {

Program complete(Actor& a, OnceTurn turn, OnceFacts& facts) {
  const BeliefPtr belief = a.referee().believe(a.process, turn.lease(), Mode::exclusive());
  Program working = a.work();
  co_await working;
  a.referee().doubt(belief, turn.lease().held());
  if (a.percent(20)) co_return;  // It gives up.
  const std::string outcome = "outcome " + std::to_string(++a.scene.serial);
  facts.attempted.insert(outcome);
  const Nanos begun = a.now();
  for (int tries = 0; tries < 2; ++tries) {
    auto completing = a.call(Async::complete(turn, outcome));
    const Result<void> stored = co_await completing;
    if (stored) {
      facts.outcome = outcome;
      facts.from = a.now();
      facts.until = begun + 2s * 98 / 100;
      co_return;
    }
    a.expect(stored.error(), "complete");
    if (stored.error().code() != Errc::kOutcomeUnknown) co_return;
  }
}

// The outcome that was there when the call began is to be found still.
bool is_kept(const Actor& a, const OnceFacts& facts, const std::string& kept, Nanos begun) {
  return !kept.empty() && kept == facts.outcome && begun >= facts.from && a.now() < facts.until;
}

}  // namespace

Program use_once(Actor& a) {
  const std::string key = a.percent(50) ? "once/0" : "once/1";
  Once once = a.client().once(key, 2s);
  OnceFacts& facts = a.scene.keys[key];
  const Nanos begun = a.now();
  const std::string kept = facts.outcome;
  const std::set<std::string> stale = facts.stale;
  const AcquireOptions options = a.limited("once");
  auto beginning = a.call(Async::begin(once, options));
  Result<OnceTurn> turn = co_await beginning;
  if (!turn) {
    a.expect(turn.error(), "once");
    a.referee().check(turn.error().code() != Errc::kTimedOut || !is_kept(a, facts, kept, begun) ||
                          *options.wait < 100ms || !a.well_since(begun),
                      key + ": its outcome was not found");
    co_return;
  }
  if (turn->first()) {
    facts.stale = facts.attempted;
    a.referee().check(!is_kept(a, facts, kept, begun),
                      key + ": somebody runs again, though there is an outcome");
    Program completing = complete(a, std::move(*turn), facts);
    co_await completing;
    co_return;
  }
  a.referee().check(facts.attempted.contains(turn->outcome()),
                    key + ": an outcome that nobody stored: " + turn->outcome());
  a.referee().check(!stale.contains(turn->outcome()),
                    key + ": " + turn->outcome() + " is over, somebody else ran after it");
  a.referee().check(!is_kept(a, facts, kept, begun) || turn->outcome() == kept,
                    key + ": " + turn->outcome() + " in place of " + kept);
}

namespace {

std::string new_value(Actor& a) {
  std::string value = "value " + std::to_string(++a.scene.serial);
  a.scene.leaders.authors[value] = a.process.name();
  return value;
}

// One report about a leader.
void check_told(Actor& a, const LeaderInfo& told, const std::string& by) {
  const LeaderFacts& facts = a.scene.leaders;
  if (told.value.empty()) return;
  const auto author = facts.authors.find(told.value);
  a.referee().check(author != facts.authors.end() && author->second == told.leader,
                    by + ": " + told.leader + " did not say '" + told.value + "'");
  const auto said = facts.values.find(told.token);
  if (said == facts.values.end()) return;
  a.referee().check(
      std::find(said->second.begin(), said->second.end(), told.value) != said->second.end(),
      by + ": '" + told.value + "' was said under another token");
}

std::size_t place_of(const LeaderFacts& facts, const LeaderInfo& told) {
  const auto said = facts.values.find(told.token);
  if (said == facts.values.end() || told.value.empty()) return 0;
  const auto& values = said->second;
  return static_cast<std::size_t>(std::find(values.begin(), values.end(), told.value) -
                                  values.begin());
}

Program lead(Actor& a, Leadership leadership) {
  LeaderFacts& facts = a.scene.leaders;
  const Token token = leadership.token();
  for (std::uint64_t more = a.dice().below(3); more > 0; --more) {
    Program working = a.work();
    co_await working;
    const std::string value = new_value(a);
    facts.values[token].push_back(value);
    const std::size_t place = facts.values[token].size() - 1;
    a.referee().trace("leader: " + std::to_string(token.counter) + " proclaims '" + value + "'");
    auto proclaiming = a.call(Async::proclaim(leadership, value));
    const Result<void> told = co_await proclaiming;
    if (!told) {
      a.expect(told.error(), "proclaim");
      break;
    }
    facts.confirmed[token] = {place, a.now()};
  }
  Program working = a.work();
  co_await working;
}

}  // namespace

Program campaign(Actor& a) {
  Election election = a.client().election("leader");
  LeaderFacts& facts = a.scene.leaders;
  const AcquireOptions options = a.limited("leader");
  const std::string value = new_value(a);
  auto campaigning = a.call(Async::campaign(election, value, options));
  Result<Leadership> leadership = co_await campaigning;
  if (!leadership) {
    a.expect(leadership.error(), "campaign", {Errc::kLost});
    a.expect_gone(options.trace_id);
    co_return;
  }
  const Token token = leadership->token();
  const BeliefPtr belief = a.referee().believe(a.process, leadership->lease(), Mode::exclusive());
  facts.values[token].push_back(value);
  facts.confirmed[token] = {0, a.now()};
  facts.leads = token;
  const auto held = detail::ticket(leadership->lease());
  Program leading = lead(a, std::move(*leadership));
  co_await leading;
  // It has resigned.
  a.referee().doubt(belief, false);
  if (facts.leads == token) facts.leads.reset();
  a.expect_gone(options.trace_id);
}

struct Observed {
  std::optional<LeaderInfo> last;
  bool ended = false;
};

Program observe(Actor& a) {
  Election election = a.client().election("leader");
  LeaderFacts& facts = a.scene.leaders;
  if (a.percent(50)) {
    const Nanos begun = a.now();
    const auto confirmed = facts.confirmed;
    auto asking = a.call(Async::leader(election));
    const Result<std::optional<LeaderInfo>> leader = co_await asking;
    if (!leader) a.expect(leader.error(), "leader");
    if (!leader || !*leader) co_return;
    check_told(a, **leader, "leader()");
    a.referee().check(!a.referee().ended_before("leader", (*leader)->token, begun),
                      "leader(): whoever had resigned: " + (*leader)->value);
    const auto known = confirmed.find((*leader)->token);
    if (known == confirmed.end()) co_return;
    a.referee().check(place_of(facts, **leader) >= known->second.first,
                      "leader(): an old value: " + (*leader)->value);
    co_return;
  }
  const auto seen = std::make_shared<Observed>();
  auto observing = a.call(Async::observe(election, [&a, seen](const LeaderChange& change) {
    a.referee().trace(
        "leader: an observer is told " +
        (change.now ? std::to_string(change.now->token.counter) + " '" + change.now->value + "'"
                    : "nobody"));
    a.referee().check(!seen->ended, "observer: told after its end");
    if (!change.now) return;
    check_told(a, *change.now, "observer");
    const bool older =
        seen->last &&
        (change.now->token < seen->last->token ||
         (change.now->token == seen->last->token &&
          place_of(a.scene.leaders, *change.now) < place_of(a.scene.leaders, *seen->last)));
    a.referee().check(!older || change.now->value.empty(),
                      "observer: told '" + change.now->value + "' after a newer one");
    const bool skipped =
        seen->last && change.missed == 0 && !seen->last->value.empty() &&
        change.now->token == seen->last->token &&
        place_of(a.scene.leaders, *change.now) > place_of(a.scene.leaders, *seen->last) + 1;
    a.referee().check(!skipped || a.world().loses,
                      "observer: not told what was said before '" + change.now->value + "'");
    seen->last = *change.now;
  }));
  Result<Watch> watch = co_await observing;
  if (!watch) {
    a.expect(watch.error(), "observe");
    co_return;
  }
  const Nanos begun = a.now();
  co_await a.sleep(500ms + a.world().upto(5s));
  const auto leads = facts.leads;
  const auto confirmed = leads ? facts.confirmed.find(*leads) : facts.confirmed.end();
  if (confirmed != facts.confirmed.end() && a.referee().is_held("leader", *leads) &&
      a.well_since(begun) && a.now() - confirmed->second.second > kLearns) {
    const bool knows = seen->last && (*leads < seen->last->token ||
                                      (seen->last->token == *leads && !seen->last->value.empty() &&
                                       place_of(facts, *seen->last) >= confirmed->second.first));
    a.referee().check(knows, "observer: not told who leads");
  }
  { const Watch ended = std::move(*watch); }
  seen->ended = true;
}

}  // namespace holdfast::simulation
