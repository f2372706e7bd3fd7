// The checker's own test: a legal run passes; with one mistake in it, it does not, for the right
// reason, whatever the seed.
#include <algorithm>
#include <functional>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/machine/testing/dice.h"

#include "lab/checker/checker.h"
#include "lab/history/text.h"
#include "lab/testing/legal_run.h"
#include "lab/testing/story.h"

namespace holdfast::lab {
namespace {

using machine::testing::Dice;
using testing::kJobs;
using testing::kMs;
using testing::kSeats;
using testing::kTables;

constexpr std::uint64_t kSeeds = 25;

// A history that is about to be spoiled.
class Draft {
 public:
  explicit Draft(std::uint64_t seed) : history(testing::legal_run(seed)), dice(seed * 77) {}

  // The first grants of a lock, in order.
  std::vector<Event*> grants(std::uint32_t lock) {
    std::vector<Event*> found;
    std::set<Id> met;
    for (Event& event : history.events) {
      const bool granted = event.kind == Kind::kAcquire && event.outcome == Outcome::kGranted;
      if (granted && event.lock == lock && met.insert(event.id).second) found.push_back(&event);
    }
    return found;
  }

  Event* find(Kind kind, Phase phase, Id id) {
    Event* last = nullptr;
    for (Event& event : history.events) {
      if (event.kind == kind && event.phase == phase && event.id == id) last = &event;
    }
    return last;
  }
  Event* begin_of(const Event& done) {
    for (Event& event : history.events) {
      const bool same = event.process == done.process && event.call == done.call;
      if (same && event.phase == Phase::kInvoke) return &event;
    }
    return nullptr;
  }
  Event* release_of(const Event& grant) { return find(Kind::kRelease, Phase::kInvoke, grant.id); }

  // A grant that was given back before the next one of the same incarnation, which is in turn.
  std::size_t released_before_another() {
    for (;;) {
      const std::size_t i = dice.below(11);
      if (i != 2 && i != 3 && i != 6 && i != 8) return i;
    }
  }

  void erase(const Event* event) {
    history.events.erase(history.events.begin() + (event - history.events.data()));
  }
  // A copy of a whole call with another number, `later` after it.
  Event* repeat(const Event& done, std::int64_t later, const std::function<void(Event&)>& change) {
    Event ends[2] = {*begin_of(done), done};
    for (Event& event : ends) {
      event.at_ns += later;
      event.call += 100'000;
      change(event);
      history.events.push_back(event);
    }
    return &history.events.back();
  }
  void set_token(Id id, Token token) {
    for (Event& event : history.events) {
      if (event.id == id && event.token != Token{}) event.token = token;
    }
  }
  void shift_from(std::int64_t from, std::int64_t by) {
    for (Event& event : history.events) {
      if (event.at_ns < from) continue;
      event.at_ns += by;
      if (event.deadline_ns != 0) event.deadline_ns += by;
    }
  }

  History history;
  Dice dice;
};

struct Mutant {
  std::string name;
  Class expected;
  std::function<void(Draft&)> spoil;
};

void never_released(Draft& d, const std::function<void(Event&, Event&)>& change) {
  const auto grants = d.grants(kJobs);
  change(*grants[3], *grants[4]);
}

std::vector<Mutant> token_mutants() {
  return {
      {"no token growth", Class::kV0,
       [](Draft& d) {
         const auto grants = d.grants(kJobs);
         const std::size_t i = d.released_before_another();
         d.set_token(grants[i + 1]->id, grants[i]->token);
       }},
      {"a token below the one before", Class::kV0,
       [](Draft& d) {
         const auto grants = d.grants(kJobs);
         const std::size_t i = d.released_before_another();
         d.set_token(grants[i + 1]->id, Token{0, grants[i]->token.counter - 1});
       }},
      {"tokens of neighbours exchanged", Class::kV0,
       [](Draft& d) {
         const auto grants = d.grants(kJobs);
         const std::size_t i = d.released_before_another();
         const Token later = grants[i + 1]->token;
         d.set_token(grants[i + 1]->id, grants[i]->token);
         d.set_token(grants[i]->id, later);
       }},
      {"a reader with the token of the writer before", Class::kV0,
       [](Draft& d) {
         const auto grants = d.grants(kTables);
         d.set_token(grants[1]->id, grants[0]->token);
       }},
      {"a writer with a token below a reader's before", Class::kV0,
       [](Draft& d) {
         const auto grants = d.grants(kTables);
         d.set_token(grants[3]->id, Token{0, grants[2]->token.counter - 1});
       }},
      {"tokens that begin again after the store's restart", Class::kV2,
       [](Draft& d) {
         const auto grants = d.grants(kJobs);
         for (std::size_t i = 9; i < grants.size(); ++i) {
           d.set_token(grants[i]->id, Token{0, i - 8});
         }
       }},
      {"one token of before given again after the store's restart", Class::kV2,
       [](Draft& d) {
         const auto grants = d.grants(kJobs);
         d.set_token(grants[9]->id, grants[d.dice.below(9)]->token);
       }},
      {"another token on re-entry", Class::kV0,
       [](Draft& d) {
         ++d.find(Kind::kAcquire, Phase::kReturn, d.grants(kJobs)[5]->id)->token.counter;
       }},
  };
}

std::vector<Mutant> identity_mutants() {
  return {
      {"one acquisition for two owners", Class::kV0,
       [](Draft& d) {
         const auto grants = d.grants(kJobs);
         grants[1]->id = grants[0]->id;
       }},
      {"release by a stranger", Class::kV0,
       [](Draft& d) {
         const auto grants = d.grants(kJobs);
         const Event* mine = d.find(Kind::kRelease, Phase::kReturn, grants[0]->id);
         d.repeat(*mine, -50 * kMs, [](Event& event) { event.process = 9999; });
       }},
      {"released twice", Class::kV0,
       [](Draft& d) {
         d.repeat(*d.find(Kind::kRelease, Phase::kReturn, d.grants(kJobs)[0]->id), 90 * kMs,
                  [](Event&) {});
       }},
      {"renewed after release", Class::kV0,
       [](Draft& d) {
         d.repeat(*d.find(Kind::kRenew, Phase::kReturn, d.grants(kJobs)[0]->id), 200 * kMs,
                  [](Event&) {});
       }},
      {"granted again after release", Class::kV0,
       [](Draft& d) {
         const Event* grant = d.grants(kJobs)[0];
         d.repeat(*grant, 600 * kMs, [](Event&) {});
       }},
  };
}

std::vector<Mutant> overlap_mutants() {
  return {
      {"overlap by one nanosecond", Class::kV0,
       [](Draft& d) {
         const auto grants = d.grants(kJobs);
         const std::size_t i = d.released_before_another();
         Event* begin = d.begin_of(*grants[i + 1]);
         grants[i + 1]->at_ns = d.release_of(*grants[i])->at_ns - 1;
         begin->at_ns = std::min(begin->at_ns, grants[i + 1]->at_ns);
       }},
      {"a writer beside a reader for one nanosecond", Class::kV0,
       [](Draft& d) {
         const auto grants = d.grants(kTables);
         grants[3]->at_ns = d.release_of(*grants[2])->at_ns - 1;
         d.begin_of(*grants[3])->at_ns = grants[3]->at_ns - 1;
       }},
      {"one permit too many", Class::kV0,
       [](Draft& d) {
         const Event* grant = d.grants(kSeats)[1];
         d.begin_of(*grant)->count = 2;
       }},
      {"a lease ended one nanosecond early", Class::kV0,
       [](Draft& d) {
         never_released(d, [&d](Event& old, Event& next) {
           next.at_ns = d.find(Kind::kRenew, Phase::kReturn, old.id)->deadline_ns - 1;
           d.begin_of(next)->at_ns = next.at_ns - 1;
         });
       }},
      {"busy while free", Class::kV0,
       [](Draft& d) {
         for (const Event& event : std::vector<Event>(d.history.events)) {
           if (event.outcome != Outcome::kBusy) continue;
           d.repeat(event, -event.at_ns + 40 * kMs, [](Event& copy) { copy.at_ns = 40 * kMs; });
           return;
         }
       }},
  };
}

std::vector<Mutant> belief_mutants() {
  return {
      {"a deadline that outlasts the lease", Class::kV1,
       [](Draft& d) {
         never_released(d, [&d](Event& old, Event& next) {
           d.find(Kind::kRenew, Phase::kReturn, old.id)->deadline_ns = next.at_ns + 1;
           d.erase(d.find(Kind::kLost, Phase::kMark, old.id));
         });
       }},
      {"belief after release", Class::kV1,
       [](Draft& d) {
         const auto grants = d.grants(kJobs);
         const std::size_t i = d.released_before_another();
         Event* release = d.release_of(*grants[i]);
         const std::int64_t late = grants[i + 1]->at_ns + 1 - release->at_ns;
         Event* answer = d.find(Kind::kRelease, Phase::kReturn, grants[i]->id);
         release->at_ns += late;
         answer->at_ns += late;
       }},
      {"a holder of before the store's restart believes on", Class::kV1,
       [](Draft& d) {
         const Id id = d.grants(kJobs)[8]->id;
         d.erase(d.find(Kind::kRelease, Phase::kInvoke, id));
         d.erase(d.find(Kind::kRelease, Phase::kReturn, id));
       }},
      {"the death was another process'", Class::kV1,
       [](Draft& d) {
         Event* death = nullptr;
         for (Event& event : d.history.events) {
           if (event.kind == Kind::kDeath) death = &event;
         }
         death->process = 9999;
         d.find(Kind::kRenew, Phase::kReturn, d.grants(kJobs)[6]->id)->deadline_ns += 300 * kMs;
       }},
  };
}

std::vector<Mutant> resource_mutants() {
  return {
      {"a stale write accepted", Class::kV2,
       [](Draft& d) {
         for (Event& event : d.history.events) {
           if (event.outcome == Outcome::kRefused) event.outcome = Outcome::kAccepted;
         }
       }},
      {"an equal token of another acquisition accepted", Class::kV2,
       [](Draft& d) {
         const auto grants = d.grants(kJobs);
         const std::size_t i = d.released_before_another();
         d.find(Kind::kWrite, Phase::kReturn, grants[i + 1]->id)->token = grants[i]->token;
       }},
      {"a reader's stale write accepted", Class::kV2,
       [](Draft& d) {
         const auto grants = d.grants(kTables);
         Event* reader = d.find(Kind::kWrite, Phase::kReturn, grants[2]->id);
         std::swap(reader->sequence, d.find(Kind::kWrite, Phase::kReturn, grants[3]->id)->sequence);
       }},
      {"writes applied in another order", Class::kV2,
       [](Draft& d) {
         const auto grants = d.grants(kJobs);
         const std::size_t i = d.released_before_another();
         std::swap(d.find(Kind::kWrite, Phase::kReturn, grants[i]->id)->sequence,
                   d.find(Kind::kWrite, Phase::kReturn, grants[i + 1]->id)->sequence);
       }},
  };
}

std::vector<Mutant> deadline_mutants() {
  return {
      {"held at the deadline", Class::kV3,
       [](Draft& d) {
         const Id id = d.grants(kJobs)[3]->id;
         const std::int64_t deadline = d.find(Kind::kRenew, Phase::kReturn, id)->deadline_ns;
         d.repeat(*d.find(Kind::kHeld, Phase::kReturn, id), 0,
                  [&](Event& event) { event.at_ns = deadline; });
       }},
      {"held after the owner was told", Class::kV3,
       [](Draft& d) {
         const Event* held = d.find(Kind::kHeld, Phase::kReturn, d.grants(kJobs)[0]->id);
         Event lost = *held;
         lost.kind = Kind::kLost;
         lost.phase = Phase::kMark;
         lost.outcome = Outcome::kNone;
         lost.at_ns = d.begin_of(*held)->at_ns - 1;
         d.history.events.push_back(lost);
       }},
      {"renewed after the deadline", Class::kV3,
       [](Draft& d) {
         const Id id = d.grants(kJobs)[3]->id;
         const Event* renewal = d.find(Kind::kRenew, Phase::kReturn, id);
         const std::int64_t deadline = renewal->deadline_ns;
         d.repeat(*renewal, 0, [&](Event& event) { event.at_ns = deadline + 1; });
       }},
      {"re-entered after the deadline", Class::kV3,
       [](Draft& d) {
         const Event* grant = d.grants(kJobs)[3];
         const std::int64_t deadline = d.find(Kind::kRenew, Phase::kReturn, grant->id)->deadline_ns;
         d.repeat(*grant, 0, [&](Event& event) { event.at_ns = deadline + 1; });
       }},
  };
}

std::vector<Mutant> recorder_mutants() {
  return {
      {"a lost invocation", Class::kMalformed,
       [](Draft& d) { d.erase(d.begin_of(*d.grants(kJobs)[d.dice.below(12)])); }},
      {"a lost return", Class::kMalformed,
       [](Draft& d) {
         d.erase(d.find(Kind::kHeld, Phase::kReturn, d.grants(kJobs)[d.dice.below(12)]->id));
       }},
      {"a lost grant", Class::kMalformed,
       [](Draft& d) { d.erase(d.grants(kJobs)[d.dice.below(12)]); }},
      {"a call number used twice", Class::kMalformed,
       [](Draft& d) {
         const Event& held =
             *d.find(Kind::kHeld, Phase::kInvoke, d.grants(kJobs)[d.dice.below(12)]->id);
         d.history.events.push_back(held);
       }},
      {"a grant without an id", Class::kMalformed,
       [](Draft& d) { d.grants(kSeats)[d.dice.below(10)]->id = {}; }},
      {"a write refused without a reason", Class::kMalformed,
       [](Draft& d) {
         const Id id = d.grants(kJobs)[d.released_before_another()]->id;
         d.find(Kind::kWrite, Phase::kReturn, id)->outcome = Outcome::kRefused;
       }},
      {"a fault that ends unbegun", Class::kMalformed,
       [](Draft& d) {
         for (Event& event : d.history.events) {
           if (event.kind == Kind::kFault && event.phase == Phase::kInvoke) return d.erase(&event);
         }
       }},
  };
}

std::vector<Mutant> liveness_mutants() {
  return {
      {"a lost wake-up", Class::kLostWakeUp,
       [](Draft& d) {
         const auto grants = d.grants(kJobs);
         const std::size_t i = d.released_before_another();
         Event* begin = d.begin_of(*grants[i + 1]);
         begin->wait_ns = 60'000 * kMs;
         begin->at_ns = d.release_of(*grants[i])->at_ns;
         d.shift_from(grants[i + 1]->at_ns, 3000 * kMs);
       }},
      {"a waiter that is stuck", Class::kStuck,
       [](Draft& d) {
         const Event last = *d.begin_of(*d.grants(kJobs)[11]);
         Event waiter = last;
         waiter.process = 9998;
         waiter.call = 1;
         waiter.wait_ns = 60'000 * kMs;
         waiter.at_ns += 10 * kMs;
         d.history.events.push_back(waiter);
         Event end;
         end.kind = Kind::kDeath;
         end.process = 9999;
         end.at_ns = last.at_ns + 15'000 * kMs;
         d.history.events.push_back(end);
       }},
      {"the lease of the dead does not end", Class::kOrphaned,
       [](Draft& d) {
         const Event& next = *d.grants(kJobs)[7];
         d.begin_of(next)->wait_ns = 60'000 * kMs;
         d.shift_from(next.at_ns, 12'000 * kMs);
       }},
  };
}

TEST(MutantsTest, TheRunsThemselvesAreLegal) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const Verdict verdict = check(testing::legal_run(seed));
    std::ostringstream text;
    print(verdict, text);
    ASSERT_TRUE(verdict.clean()) << "seed " << seed << ": " << text.str();
    ASSERT_EQ(verdict.busy_undecided, 0U);
    ASSERT_GT(verdict.busy_judged, 5U);
  }
}

TEST(MutantsTest, EveryMistakeIsCaughtForItsOwnReason) {
  std::vector<Mutant> mutants;
  for (const auto& kind :
       {token_mutants(), identity_mutants(), overlap_mutants(), belief_mutants(),
        resource_mutants(), deadline_mutants(), recorder_mutants(), liveness_mutants()}) {
    mutants.insert(mutants.end(), kind.begin(), kind.end());
  }
  std::size_t caught = 0;
  for (const Mutant& mutant : mutants) {
    bool always = true;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      Draft draft(seed);
      mutant.spoil(draft);
      testing::sort_events(draft.history);
      const Verdict verdict = check(draft.history);
      if (verdict.count(mutant.expected) > 0) continue;
      always = false;
      std::ostringstream text;
      print(verdict, text);
      ADD_FAILURE() << "'" << mutant.name << "', seed " << seed << ", is no "
                    << name_of(mutant.expected) << ": " << text.str();
      break;
    }
    caught += always;
  }
  std::cout << caught << " of " << mutants.size() << " mutants caught, with " << kSeeds
            << " seeds each\n";
  EXPECT_GE(mutants.size(), 30U);
}

}  // namespace
}  // namespace holdfast::lab
