// The state machine of one acquisition under random events and answers of every kind. Each step is
// checked against the table of transitions; the walks together have to use all of the table.
#include "src/contend/acquisition.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/contend/acquisition_by_hand.h"
#include "src/contend/acquisition_table.h"

namespace holdfast::contend {
namespace {

using namespace std::chrono_literals;
using machine::Mode;
using port::AcquisitionState;

using Step = std::tuple<State, EventKind, State>;

// One acquisition, and a store that answers what it likes.
class Walk {
 public:
  Walk(unsigned seed, std::set<Step>& seen) : dice_(seed), seen_(seen), acquisition_(make()) {}

  // Plays until the acquisition has ended. Returns a description of a violation, or nothing.
  std::string play() {
    step(Begin{});
    for (int i = 0; i < 300 && !acquisition_.ended() && wrong_.empty(); ++i) {
      if (i > 60 && percent(20)) end();
      happen();
    }
    for (int i = 0; i < 200 && !acquisition_.ended() && wrong_.empty(); ++i) {
      end();
      answers_well_ = true;
      happen();
    }
    if (!acquisition_.ended()) check(false, "it does not end");
    check(answered_ == asked_, "asked " + std::to_string(asked_) + " times, answered " +
                                   std::to_string(answered_) + " times");
    check(!ends_open_, "the caller that released it was not told");
    check(!keeps_open_, "the caller that let it go was not told");
    check(!perhaps_there_ || left_to_store_, "its contender was left behind in the store");
    return wrong_;
  }

 private:
  unsigned below(unsigned number) { return static_cast<unsigned>(dice_() % number); }
  bool percent(unsigned share) { return below(100) < share; }
  void check(bool good, const std::string& what) {
    if (!good && wrong_.empty()) wrong_ = what;
  }

  AcquisitionFsm make() {
    traits_ = {"store", percent(80), percent(15), percent(60)};
    traits_.keeps = traits_.keeps && !traits_.gated;  // No recipe keeps.
    if (percent(10)) {
      return AcquisitionFsm::shrink(traits_, {"lock", {1, 1}, at(2s), 1}, 1, 3, now_);
    }
    if (traits_.keeps && percent(25)) {
      adopts_ = true;
      return AcquisitionFsm::adopt(traits_, {"lock", {1, 1}, ++seq_, kTtl, kTtl, {}, true}, now_,
                                   at(2s));
    }
    port::AcquireRequest request;
    request.name = "lock";
    request.id = {1, 1};
    request.outlives_client = percent(40);
    request.may_wait = percent(60);
    request.ttl = request.waiter_ttl = kTtl;
    request.max_waiters = percent(20) ? 1 : 0;
    request.deadline = at(2s);
    const Mode modes[] = {Mode::exclusive(), Mode::shared(), Mode::of_permits(1, 3)};
    request.mode = modes[below(3)];
    if (request.mode.kind != machine::ModeKind::kExclusive || percent(70)) {
      return {traits_, std::move(request), nullptr, now_};
    }
    port::AcquireRequest shared = request;
    shared.id = {1, 2};
    shared.mode = Mode::shared();
    const AcquisitionFsm base(traits_, std::move(shared), nullptr, now_);
    request.upgrade_of = {1, 2};
    return {traits_, std::move(request), &base, now_};
  }

  base::BootInstant at(std::chrono::nanoseconds after) const { return now_ + after; }
  Context context() { return {now_, {epoch_, percent(10), 3s, at(3s), at(1s)}}; }

  // --- Steps.
  void step(Event event) {
    const State before = acquisition_.state();
    const EventKind kind = kind_of(event);
    Actions actions;
    acquisition_.step(std::move(event), context(), actions);
    note(before, kind, actions);
  }

  void note(State before, EventKind kind, Actions& actions) {
    const State after = acquisition_.state();
    check(allowed(before, kind, after), "a transition that the table does not have");
    if (before != after) seen_.insert({before, kind, after});
    const bool held = after == State::kHeld && before != after;
    const bool over = before == State::kHeld && kind == EventKind::kTimeIsUp;
    if (over && acquisition_.kept() && acquisition_.ended()) left_to_store_ = true;
    check(!held || acquisition_.token() != machine::Token{}, "it holds without a token");
    for (Action& action : actions) {
      if (auto* ask = std::get_if<Ask>(&action)) {
        check(!acquisition_.ended(), "it asks after its end");
        if (std::holds_alternative<Create>(ask->request)) perhaps_there_ = true;
        asks_[ask->slot] = std::move(*ask);
      } else if (const auto* answer = std::get_if<Answer>(&action)) {
        answered_ += answer->count;
      } else if (std::holds_alternative<AnswerEnds>(action)) {
        ends_open_ = false;
      } else if (const auto* kept = std::get_if<AnswerKeeps>(&action)) {
        keeps_open_ = false;
        left_to_store_ = kept->result || kept->result.error().code() == Errc::kOutcomeUnknown;
      }
    }
    std::erase_if(asks_, [this](const auto& ask) {
      return !acquisition_.wants(ask.second.slot, ask.second.number);
    });
  }

  void end() {
    if (acquisition_.ended()) return;
    ends_open_ = true;
    step(End{at(1s)});
  }

  void end_session() {
    if (!acquisition_.perhaps_kept()) perhaps_there_ = false;  // It goes with the session.
    const bool in_doubt = acquisition_.held() && acquisition_.perhaps_kept();
    step(SessionEnded{});
    if (in_doubt && acquisition_.ended()) left_to_store_ = true;
    ++epoch_;
  }

  void happen() {
    const bool entering = acquisition_.state() < State::kListing && acquisition_.epoch() != 0;
    if (entering && percent(3)) end();
    if (entering && acquisition_.leaving() && percent(10)) return end_session();
    const bool in_doubt = acquisition_.perhaps_kept() && !acquisition_.held();
    if (in_doubt && acquisition_.epoch() != 0 && percent(10)) return end_session();
    now_ += std::chrono::milliseconds(below(60));
    if (acquisition_.next_due() < now_ || (asks_.empty() && percent(50))) {
      if (acquisition_.next_due() < base::BootInstant::max()) {
        now_ = std::max(now_, acquisition_.next_due());
      }
      return step(TimeIsUp{});
    }
    if (!asks_.empty() && percent(70)) return reply();
    switch (below(answers_well_ ? 40 : 13)) {
      case 0: return ask_again();
      case 1: return renew();
      case 2: return renew();
      case 3: return step(Woken{});
      case 4: return step(HandedOff{blocker_, {0, 1}});
      case 5: return step(Notified{});
      case 6:
        if (percent(40) || acquisition_.epoch() == 0) return;
        return end_session();
      case 7:
        if (acquisition_.held()) step(Weaken{at(1s)});
        return;
      case 8:
        if (percent(5)) step(Leave{});
        return;
      case 9:
        if (percent(30)) end();
        return;
      case 10:
        if (percent(60) || !traits_.keeps || !acquisition_.held() || keeps_open_) return;
        keeps_open_ = true;
        return step(LetGo{++seq_, 5s, "value", at(1s)});
      default: return;
    }
  }

  void ask_again() {
    if (acquisition_.held() || acquisition_.waits() || acquisition_.ended()) return;
    ++asked_;
    step(Asked{at(2s)});
  }

  void renew() {
    if (acquisition_.ended()) return;
    const State before = acquisition_.state();
    Actions actions;
    const port::RenewItem item{"lock", {1, 1}, ++seq_, kTtl, kTtl, {}};
    if (!acquisition_.renew(item, now_, at(1s), context(), actions)) ++asked_;
    note(before, EventKind::kRenewal, actions);
  }

  // --- Answers.
  void reply() {
    auto next = asks_.begin();
    std::advance(next, below(static_cast<unsigned>(asks_.size())));
    if (silent_ && std::holds_alternative<AwaitSession>(next->second.request)) return;
    Ask ask = std::move(next->second);
    asks_.erase(next);
    if (std::holds_alternative<AwaitSession>(ask.request)) {
      if (epoch_ == 0) epoch_ = 1;
      if (fails()) return step(SessionOpened{error(), {}});
      return step(SessionOpened{{}, {}});
    }
    step(Replied{ask.slot,
                 std::visit([&](const auto& what) { return answer_to(what); }, ask.request),
                 percent(50)});
  }

  bool fails() { return !answers_well_ && percent(15); }
  Error error() {
    constexpr std::array kCodes = {Errc::kUnavailable, Errc::kOutcomeUnknown, Errc::kUnavailable,
                                   Errc::kLost, Errc::kPermissionDenied};
    return {kCodes.at(below(kCodes.size())), "made up"};
  }

  Reply answer_to(const AwaitSession&) { return Result<bool>(true); }  // Not asked for here.
  Reply answer_to(const Create&) {
    if (fails()) {
      const Error why = error();
      if (why.code() != Errc::kOutcomeUnknown) perhaps_there_ = false;
      return Result<Entered>(why);
    }
    return Result<Entered>(Entered{kMine, listing(/*mine=*/true)});
  }
  Reply answer_to(const ListQueue& request) {
    if (fails()) {
      const Error why = error();
      // It asked whether it is there.
      if (request.latest && why.code() == Errc::kLost) perhaps_there_ = false;
      return Result<Listing>(why);
    }
    const bool mine = percent(request.latest ? 50 : 97);
    if (!mine) perhaps_there_ = false;
    return Result<Listing>(listing(mine));
  }
  Reply answer_to(const ListInFull&) {
    if (fails()) return Result<Listing>(error());
    Listing full = listing(/*mine=*/!adopts_ || percent(80));
    full.record = record();
    for (QueueEntry& each : full.queue) {
      if (each.key.id != machine::AcquisitionId{1, 1}) continue;
      each.details = kept_details();
      each.created = kMine;
    }
    return Result<Listing>(std::move(full));
  }
  Reply answer_to(const ReadRecord&) {
    if (fails()) return Result<std::pair<Record, std::uint64_t>>(error());
    // While it holds it asks for that only because it is gone.
    if (acquisition_.held()) perhaps_there_ = false;
    return Result<std::pair<Record, std::uint64_t>>(std::pair{record(), std::uint64_t{below(200)}});
  }
  Reply answer_to(const ReadEntry& request) {
    blocker_ = *request.entry;
    const bool mine = request.entry->key == acquisition_.key();
    return entry(mine);
  }
  Details kept_details() {
    Details details = this->details();
    if (!percent(90)) return details;
    const std::uint64_t seq = percent(10) ? seq_ + 1 : below(3);
    details.token = 77;
    details.kept = std::make_shared<Kept>(Kept{{1, 1}, seq, kTtl, "lease", kMine});
    return details;
  }
  Reply answer_to(const DropEntry&) {
    if (fails()) return Result<bool>(error());
    return Result<bool>(percent(80));
  }
  Reply answer_to(const KeepEntry& request) {
    using Found = std::optional<Read>;
    if (fails() || (crowded_ && !answers_well_ && percent(20))) return Result<Found>(error());
    if (percent(crowded_ ? 90 : 15)) return Result<Found>(Found());
    return Result<Found>(Found(Read{*request.details, kMine, 90 + below(200)}));
  }
  Reply answer_to(const WriteDetails&) { return entry(/*mine=*/true); }
  Reply entry(bool mine) {
    using Found = std::optional<Read>;
    if (fails()) return Result<Found>(error());
    if (percent(mine ? 5 : 30)) {
      if (mine) perhaps_there_ = false;
      return Result<Found>(Found());
    }
    const bool kept = mine && acquisition_.perhaps_kept();
    return Result<Found>(
        Found(Read{kept ? kept_details() : details(), mine ? kMine : 50, 90 + below(200)}));
  }
  Reply answer_to(const Apply&) {
    using Applied = std::optional<std::uint64_t>;
    if (fails()) return Result<Applied>(error());
    const bool applied = percent(70);
    if (applied && acquisition_.state() == State::kShrinking) perhaps_there_ = false;
    return Result<Applied>(applied ? Applied(200 + below(9)) : Applied());
  }
  Reply answer_to(const PassGate&) {
    if (fails()) return Result<Gate>(error());
    if (percent(50)) return Result<Gate>(Gate{Read{details(), kMine, 150}, {}});
    return Result<Gate>(Gate{{}, 2s});
  }
  Reply answer_to(const Remove&) {
    if (fails()) {
      const Error why = error();
      if (why.code() == Errc::kLost && !acquisition_.perhaps_kept()) perhaps_there_ = false;
      return Result<bool>(why);
    }
    perhaps_there_ = false;
    return Result<bool>(percent(80));
  }

  Details details() {
    Details details;
    details.attempt = percent(50);
    details.weakened = percent(20);
    if (percent(15)) details.left = below(2) * 100ms;
    details.marked = percent(20);
    if (percent(5))
      details.unreadable = std::make_shared<Error>(Errc::kVersionMismatch, "of a later version");
    return details;
  }
  Record record() {
    Record record;
    if (percent(20)) record.upgrade = {2, below(4)};
    if (percent(30)) record.capacity = 1 + below(4);
    if (percent(30)) record.broken = Trace{acquisition_.token().counter, {1, 1}, {}};
    return record;
  }
  // Others before it, or none.
  Listing listing(bool mine) {
    Listing listing;
    const bool permits =
        acquisition_.key().shape == Shape::kPermits || acquisition_.key().shape == Shape::kShrink;
    if (acquisition_.key().shape == Shape::kUpgrade && percent(90)) {
      listing.queue.push_back({{{1, 2}, Shape::kShared, 1, 1, {}}, 3});
    }
    for (unsigned i = below(3); i > 0; --i) {
      QueueEntry other;
      other.key.id = {2, i};
      other.key.shape = percent(50) ? Shape::kShared : Shape::kExclusive;
      if (permits && percent(95)) other.key = {{2, i}, Shape::kPermits, 1 + below(3), 3, {}};
      other.order = 50 - i;
      if (percent(40)) {
        other.details = details();
        other.created = other.order;
      }
      listing.queue.push_back(std::move(other));
    }
    if (mine) listing.queue.push_back({acquisition_.key(), kMine});
    listing.record_rev = percent(50) ? 0 : below(200);
    if (percent(30)) listing.record = record();
    if (percent(2)) listing.refusal = Error(Errc::kUnsupported, "others are there");
    return listing;
  }

  static constexpr std::uint64_t kMine = 100;

  std::mt19937 dice_;
  std::set<Step>& seen_;
  base::BootInstant now_{1h};
  StoreTraits traits_;
  std::uint64_t epoch_ = 0;
  std::uint64_t seq_ = 0;
  bool adopts_ = false;
  bool crowded_ = percent(25);  // Others write the contender all the time.
  AcquisitionFsm acquisition_;
  std::map<Slot, Ask> asks_;
  QueueEntry blocker_;
  std::size_t asked_ = 1;
  std::size_t answered_ = 0;
  bool keeps_open_ = false;
  bool left_to_store_ = false;  // On purpose: it ends there by itself.
  bool ends_open_ = false;
  bool perhaps_there_ = false;
  bool answers_well_ = false;
  bool silent_ = percent(3);  // No session is opened.
  std::string wrong_;
};

std::string text(const Step& step) {
  const auto& [from, by, to] = step;
  const auto number = [](auto value) { return std::to_string(static_cast<int>(value)); };
  return number(from) + " by " + number(by) + " to " + number(to);
}

TEST(AcquisitionTest, RandomWalksKeepToTheTableAndUseAllOfIt) {
  std::set<Step> seen;
  for (unsigned seed = 1; seed <= 30000; ++seed) {
    ASSERT_EQ(Walk(seed, seen).play(), "") << "seed " << seed;
  }
  int row = 0;
  for (const Transition& each : transitions::kAll) {
    ++row;
    for (int i = 0; i <= static_cast<int>(State::kEnded); ++i) {
      const auto state = static_cast<State>(i);
      bool left = false;
      bool entered = false;
      for (int k = 0; k <= static_cast<int>(EventKind::kRenewal); ++k) {
        const auto kind = static_cast<EventKind>(k);
        if (!each.by.has(kind)) continue;
        for (int j = 0; j <= static_cast<int>(State::kEnded); ++j) {
          const auto other = static_cast<State>(j);
          left = left || (each.to.has(other) && seen.contains({state, kind, other}));
          entered = entered || (each.from.has(other) && seen.contains({other, kind, state}));
        }
      }
      EXPECT_TRUE(!each.from.has(state) || left) << "row " << row << ": never left: " << i;
      EXPECT_TRUE(!each.to.has(state) || entered) << "row " << row << ": never entered: " << i;
    }
  }
  if (HasFailure()) {
    for (const Step& step : seen) std::printf("%s\n", text(step).c_str());
  }
}

// --- Single steps.

TEST(AcquisitionTest, AHandoffGrantsOnlyTheWaiterItIsMeantFor) {
  const auto waiter = [](const Mode& mode) {
    ByHand one(mode);
    one.created({other()});
    if (one.asks<ReadEntry>() != nullptr && one.state() == State::kReadingHead) one.still_there();
    one.still_there();
    EXPECT_EQ(one.state(), State::kWaiting);
    return one;
  };
  ByHand next = waiter(Mode::exclusive());
  next.step(HandedOff{other(), {0, 99}});
  EXPECT_EQ(next.state(), State::kHeld);
  ByHand older = waiter(Mode::exclusive());
  older.step(HandedOff{other(), {0, 101}});
  EXPECT_EQ(older.state(), State::kListing) << "a larger token was granted";
  ByHand foreign = waiter(Mode::exclusive());
  QueueEntry again = other();
  again.order = 51;
  foreign.step(HandedOff{again, {0, 99}});
  EXPECT_EQ(foreign.state(), State::kListing) << "the name came again";
  ByHand reader = waiter(Mode::shared());
  reader.step(HandedOff{other(), {0, 99}});
  EXPECT_EQ(reader.state(), State::kListing) << "a reader asks whether it holds";
  ByHand ended = waiter(Mode::exclusive());
  ended.epoch = 2;
  ended.step(HandedOff{other(), {0, 99}});
  EXPECT_EQ(ended.state(), State::kListing) << "of another session";
  ByHand late = waiter(Mode::exclusive());
  late.session_deadline = late.now;
  late.step(HandedOff{other(), {0, 99}});
  EXPECT_EQ(late.state(), State::kListing) << "the session may have ended";
}

TEST(AcquisitionTest, AWakeUpDuringADecisionLeadsToAnother) {
  ByHand waiter;
  waiter.created({other()});
  waiter.step(Woken{});
  EXPECT_EQ(waiter.acted<Ask>(), nullptr);
  waiter.still_there();
  EXPECT_TRUE(waiter.asks<ListQueue>());
}

TEST(AcquisitionTest, AReaderSeesThatTheWriterBeforeItWasWeakened) {
  ByHand reader(Mode::shared());
  QueueEntry writer = other();
  writer.details = Details{};
  reader.created({writer});
  ASSERT_EQ(reader.state(), State::kReadingBlocker);
  Details weakened;
  weakened.weakened = true;
  reader.still_there(weakened);
  EXPECT_TRUE(reader.asks<ListQueue>());
}

TEST(AcquisitionTest, AReaderBesideAnUpgradeHoldsOnlyByTheRecordThatItRead) {
  ByHand reader(Mode::shared());
  QueueEntry base = other(Shape::kShared);
  QueueEntry upgrade = other(Shape::kUpgrade);
  upgrade.key.id = {2, 2};
  upgrade.key.upgrade_of = base.key.id;
  upgrade.order = 160;
  Listing listing;
  listing.queue = {base, {{{1, 1}, Shape::kShared, 1, 1, {}}, ByHand::kMine}, upgrade};
  listing.record_rev = 170;
  listing.record = Record{};
  reader.answer(Entered{ByHand::kMine, listing});
  const auto* apply = reader.asks<Apply>();
  ASSERT_NE(apply, nullptr);
  EXPECT_EQ(apply->change->record_rev, 170U);
  ASSERT_TRUE(apply->change->present);
  EXPECT_EQ(apply->change->present->order, ByHand::kMine);
}

TEST(AcquisitionTest, ATryThatHoldsShowsItSoonUnlessItIsReleased) {
  ByHand holder(Mode::exclusive(), /*may_wait=*/false);
  holder.created({});
  ASSERT_EQ(holder.state(), State::kHeld);
  holder.pass(20ms);
  const auto* write = holder.asks<WriteDetails>();
  ASSERT_NE(write, nullptr);
  EXPECT_FALSE(write->details->attempt);
  ByHand quick(Mode::exclusive(), /*may_wait=*/false);
  quick.created({});
  quick.step(End{quick.now + 1s});
  quick.pass(20ms);
  EXPECT_EQ(quick.acted<Ask>(), nullptr);
}

TEST(AcquisitionTest, AHolderThatWasBrokenIsToldByWhom) {
  ByHand holder;
  holder.created({});
  holder.step(Notified{});
  ASSERT_TRUE(holder.asks<ReadEntry>());
  holder.answer(std::optional<Read>(), Slot::kCheck);
  ASSERT_TRUE(holder.asks<ReadRecord>());
  Record record;
  record.broken = Trace{ByHand::kMine, {1, 1}, {}};
  holder.answer(std::pair(record, std::uint64_t{120}), Slot::kCheck);
  EXPECT_EQ(holder.state(), State::kEnded);
  EXPECT_TRUE(holder.acted<NoteBroken>());
  EXPECT_TRUE(holder.acted<Tell>());
}

TEST(AcquisitionTest, ARenewalThatHasNothingNewToTellWaitsALittle) {
  ByHand holder;
  holder.created({});
  EXPECT_FALSE(holder.renew(1)) << "told with the grant";
  holder.session_deadline += 1s;
  holder.pass(20ms);
  const auto* answer = holder.acted<Answer>();
  ASSERT_NE(answer, nullptr);
  EXPECT_GT(answer->result->lease, 3s);
}

// It went with its session, whatever became of the request.
TEST(AcquisitionTest, AContenderGivenUpBeforeItWasSeenEndsWithItsSession) {
  ByHand one;
  one.step(End{one.now + 1s});
  one.step(Replied{Slot::kMain, Result<Entered>(Error(Errc::kOutcomeUnknown, "lost")), false});
  ASSERT_EQ(one.state(), State::kSearching);
  one.epoch = 0;
  one.step(SessionEnded{});
  EXPECT_NE(one.acted<AnswerEnds>(), nullptr);
  EXPECT_EQ(one.state(), State::kEnded);
}

}  // namespace
}  // namespace holdfast::contend
