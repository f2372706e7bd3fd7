// The cost of judging a run of the lab: a million events of exclusive, shared and permit locks in
// one history, with renewals, writes, questions and refused tries. The aim is under 2 s.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "lab/checker/checker.h"
#include "lab/history/history.h"
#include "lab/testing/story.h"

namespace holdfast::lab {
namespace {

using testing::Asked;
using testing::Story;

constexpr std::int64_t kStep = 1000;

// Fourteen events: a grant with all that its owner may do, and somebody who is refused.
void tell_hold(Story& story, std::uint32_t number, std::int64_t at, const Asked& asked) {
  story.acquire(2 * number, at, at + 10, asked);
  story.call(Kind::kRenew, 2 * number, at + 100, at + 110, Outcome::kRenewed, asked);
  story.call(Kind::kHeld, 2 * number, at + 200, at + 210, Outcome::kHeld, asked);
  story.write(2 * number, at + 300, number + 1, asked);
  story.call(Kind::kHeld, 2 * number, at + 320, at + 321, Outcome::kHeld, asked);
  const Asked refused{.outcome = Outcome::kBusy, .ttl = kStep, .lock = asked.lock};
  story.acquire(2 * number + 1, at + 400, at + 410, refused);
  story.call(Kind::kRelease, 2 * number, at + 500, at + 510, Outcome::kReleased, asked);
}

History make(std::int64_t events, std::uint32_t locks) {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < locks; ++i) names.push_back("lock/" + std::to_string(i));
  Story story(std::move(names));
  const auto holds = static_cast<std::uint32_t>(events / 14);
  for (std::uint32_t i = 1; i <= holds; ++i) {
    const std::uint32_t lock = i % locks;
    const std::int64_t at = std::int64_t{i / locks} * kStep;
    Asked asked{.token = i, .deadline = at + 900, .ttl = kStep, .lock = lock};
    asked.mode = static_cast<ModeKind>(lock % 3);
    asked.capacity = 4;
    tell_hold(story, i, at, asked);
  }
  return story.history();
}

void check_history(benchmark::State& state) {
  const History history = make(state.range(0), static_cast<std::uint32_t>(state.range(1)));
  for (auto run : state) {
    const Verdict verdict = check(history);
    if (!verdict.clean()) std::abort();
    benchmark::DoNotOptimize(verdict.events);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(history.events.size()));
}
BENCHMARK(check_history)
    ->ArgNames({"events", "locks"})
    ->Args({10'000, 3})
    ->Args({1'000'000, 1})
    ->Args({1'000'000, 3})
    ->Args({1'000'000, 1'000})
    ->Unit(benchmark::kMillisecond);

// One lease for the whole run: all events hang on one acquisition.
void check_one_long_lease(benchmark::State& state) {
  Story story;
  Asked asked{.token = 1, .deadline = 900, .ttl = kStep};
  story.acquire(1, 0, 10, asked);
  for (std::int64_t i = 1; i <= state.range(0) / 4; ++i) {
    const std::int64_t at = i * kStep / 4;
    asked.deadline = at + 900;
    story.call(Kind::kRenew, 1, at, at + 10, Outcome::kRenewed, asked);
    story.call(Kind::kHeld, 1, at + 20, at + 30, Outcome::kHeld, asked);
  }
  const History history = story.history();
  for (auto run : state) {
    const Verdict verdict = check(history);
    if (!verdict.clean()) std::abort();
    benchmark::DoNotOptimize(verdict.events);
  }
}
BENCHMARK(check_one_long_lease)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace holdfast::lab
