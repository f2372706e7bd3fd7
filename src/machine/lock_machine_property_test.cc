// Properties of any sequence of commands, shrunk by rapidcheck to the shortest that breaks one.
#include <rapidcheck.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "src/machine/lock_machine.h"
#include "src/machine/testing/effect_observer.h"
#include "src/machine/testing/reference_model.h"

namespace holdfast::machine::testing {
namespace {

// A command as small numbers, so that shrinking finds simple ones.
struct Word {
  std::uint8_t verb = 0;
  std::uint8_t name = 0;
  std::uint8_t who = 0;
  std::uint8_t other = 0;
  std::uint8_t mode = 0;
  std::uint8_t pause = 0;
};

void showValue(const Word& word, std::ostream& os) {
  os << "{verb " << int{word.verb} << ", name " << int{word.name} << ", who " << int{word.who}
     << ", other " << int{word.other} << ", mode " << int{word.mode} << ", pause "
     << int{word.pause} << "}";
}

constexpr std::array<std::string_view, 3> kNames{"a", "b", "a name that is not short"};

AcquisitionId id(std::uint8_t who) { return {0, 1U + who}; }

Mode mode(const Word& word) {
  switch (word.mode) {
    case 0: return Mode::exclusive();
    case 1:
    case 2: return Mode::shared();
    default: return Mode::of_permits(word.mode - 2U, 3);
  }
}

Action action(const Word& word) {
  const std::string_view name = kNames[word.name];
  switch (word.verb) {
    case 0:
    case 1:
    case 2: {
      Acquire acquire{.name = name, .id = id(word.who), .mode = mode(word)};
      acquire.may_wait = word.other != 0;
      acquire.ttl = Duration{20};
      acquire.waiter_ttl = Duration{8};
      if (word.mode == 0 && word.other > 2) acquire.upgrade_of = id(word.other);
      return acquire;
    }
    case 3:
    case 4: return Renew{name, id(word.who), word.other, Duration{20}, Duration{8}};
    case 5: return Release{name, id(word.who), Duration{word.mode * 4}};
    case 6: return Cancel{name, id(word.who), Duration{word.mode * 4}};
    case 7: return Downgrade{name, id(word.who), Duration{word.mode}};
    case 8: return Break{name, Token{0, word.other + 1U}, Duration{word.mode}, {}};
    case 9: return Resize{name, id(word.who), word.other};
    case 10: return SetValue{name, id(word.who), std::string(word.other, 'v')};
    case 11: {
      Keep keep{name, id(word.who), word.other, Duration{word.mode * 5}, std::nullopt};
      if (word.pause % 2 == 0) keep.value = std::string(word.mode, 'k');
      return keep;
    }
    default: return Tick{};
  }
}

}  // namespace
}  // namespace holdfast::machine::testing

namespace rc {

template <>
struct Arbitrary<holdfast::machine::testing::Word> {
  static auto arbitrary() {
    using holdfast::machine::testing::Word;
    const auto below = [](int bound) { return gen::cast<std::uint8_t>(gen::inRange(0, bound)); };
    return gen::build<Word>(gen::set(&Word::verb, below(13)), gen::set(&Word::name, below(3)),
                            gen::set(&Word::who, below(6)), gen::set(&Word::other, below(6)),
                            gen::set(&Word::mode, below(6)), gen::set(&Word::pause, below(9)));
  }
};

}  // namespace rc

namespace holdfast::machine::testing {
namespace {

using Words = std::vector<Word>;

RC_GTEST_PROP(LockMachineProperty, RepliesAndStatesAreThoseOfTheModel, (const Words& words)) {
  const Limits limits{.admissions_per_step = 2, .max_value = 3};
  LockMachine machine(Token{}, limits);
  ReferenceModel model(Token{}, limits);
  Instant now{};
  for (const Word& word : words) {
    now += Duration{word.pause};
    const Command command{now, action(word)};
    Effects effects;
    const Reply reply = machine.apply(command, effects);
    RC_ASSERT(reply == model.apply(command));
    RC_ASSERT(machine.snapshot() == model.snapshot());
    machine.check_invariants();
  }
}

RC_GTEST_PROP(LockMachineProperty, WhatIsForeseenIsWhatAnAcquireAnswers, (const Words& words)) {
  LockMachine machine(Token{});
  Instant now{};
  Effects effects;
  for (const Word& word : words) {
    now += Duration{word.pause};
    Action next = action(word);
    auto* const acquire = std::get_if<Acquire>(&next);
    if (acquire != nullptr) {
      acquire->may_wait = false;
      machine.apply({now, Tick{}}, effects);
      const MachineImage before = machine.snapshot();
      const Outcome foreseen = machine.foresee(*acquire);
      RC_ASSERT(machine.snapshot() == before);
      RC_ASSERT(machine.apply({now, next}, effects).outcome == foreseen);
      continue;
    }
    machine.apply({now, next}, effects);
  }
}

RC_GTEST_PROP(LockMachineProperty, EffectsTellTheState, (const Words& words)) {
  LockMachine machine(Token{});
  EffectObserver observer(Token{});
  observer.expect_keeps();
  Instant now{};
  for (const Word& word : words) {
    now += Duration{word.pause};
    Effects effects;
    machine.apply({now, action(word)}, effects);
    observer.pass(machine.now());
    for (const Effect& effect : effects) RC_ASSERT(observer.see(effect));
    RC_ASSERT(observer.image() == machine.snapshot());
  }
}

RC_GTEST_PROP(LockMachineProperty, ARestoredMachineGoesOnTheSameWay,
              (const Words& before, const Words& after)) {
  LockMachine machine(Token{}, {.admissions_per_step = 1});
  Instant now{};
  Effects effects;
  for (const Word& word : before) {
    now += Duration{word.pause};
    machine.apply({now, action(word)}, effects);
  }
  // Another seed of the hash: no answer may depend on it.
  auto restored =
      LockMachine::restore(machine.snapshot(), {.admissions_per_step = 1, .hash_seed = 99});
  RC_ASSERT(restored.has_value());
  for (const Word& word : after) {
    now += Duration{word.pause};
    Effects mine;
    Effects theirs;
    RC_ASSERT(machine.apply({now, action(word)}, mine) ==
              restored->apply({now, action(word)}, theirs));
    RC_ASSERT(mine.size() == theirs.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      RC_ASSERT(mine[i].kind == theirs[i].kind);
      RC_ASSERT(mine[i].name == theirs[i].name);
      RC_ASSERT(mine[i].id == theirs[i].id);
    }
  }
  RC_ASSERT(machine.snapshot() == restored->snapshot());
}

RC_GTEST_PROP(LockMachineProperty, TheNextEventIsWhenATickChangesSomething, (const Words& words)) {
  LockMachine machine(Token{});
  Instant now{};
  Effects effects;
  for (const Word& word : words) {
    now += Duration{word.pause};
    machine.apply({now, action(word)}, effects);
    const auto next = machine.next_event();
    if (!next || *next == machine.now()) continue;
    auto copy = LockMachine::restore(machine.snapshot());
    effects.clear();
    copy->apply({*next - Duration{1}, Tick{}}, effects);
    RC_ASSERT(effects.empty());
    copy->apply({*next, Tick{}}, effects);
    RC_ASSERT(!effects.empty());
  }
}

RC_GTEST_PROP(LockMachineProperty, EverythingEndsByItself, (const Words& words)) {
  LockMachine machine(Token{});
  Instant now{};
  Effects effects;
  for (const Word& word : words) {
    now += Duration{word.pause};
    Action next = action(word);
    if (std::holds_alternative<SetValue>(next)) continue;  // A value stays.
    if (auto* const keep = std::get_if<Keep>(&next)) keep->value.reset();
    machine.apply({now, std::move(next)}, effects);
  }
  int steps = 0;
  while (const auto next = machine.next_event()) {
    machine.apply({*next, Tick{}}, effects);
    RC_ASSERT(++steps < 1000);
  }
  RC_ASSERT(machine.snapshot().locks.empty());
}

}  // namespace
}  // namespace holdfast::machine::testing
