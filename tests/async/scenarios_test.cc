#include "tests/async/scenarios.h"

#include "holdfast/stores.h"
#include "tests/library/fixture.h"

namespace holdfast::testing {
namespace {

class AsyncScenarios : public LibraryTest {
 protected:
  // Each change is a commit.
  bool on_disk() const {
    return GetParam() == "sqlite" || GetParam() == "postgres" || GetParam() == "mysql";
  }
  // Each request is a round of the servers, and each wait has a heartbeat that reads.
  bool by_consensus() const { return store_of_url(GetParam() + ":")->bound_to_client; }
};
HOLDFAST_ON_EVERY_STORE(AsyncScenarios);

TEST_P(AsyncScenarios, ACancelAtAnyStepLeavesNoTicket) { sweep_cancellation(url()); }

TEST_P(AsyncScenarios, ACancelAtAnyStepOfAPrimitiveLeavesNothing) { sweep_primitives(url()); }

TEST_P(AsyncScenarios, ACancelAtAnyStepOfAOnceGuardLeavesNothing) { sweep_once_guard(url()); }

TEST_P(AsyncScenarios, ASignalAtAnyInstantLeavesNoTicket) { sweep_signals(url(), 100); }

// Each wait has a heartbeat: a sanitizer's host must keep up with them.
#if defined(HOLDFAST_SANITIZED)
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif

TEST_P(AsyncScenarios, ACrowdOnOneThreadIsGrantedOneByOne) {
  if (by_consensus()) {
    contend(url(), 500, 50);
  } else if (kSlow) {
    contend(url(), on_disk() ? 400 : 1'000, 50);
  } else if (on_disk()) {
    contend(url(), 2'000, 100);
  } else {
    contend(url(), 10'000, 100);
  }
}

TEST_P(AsyncScenarios, CloseAnswersEveryWait) {
  close_while_waiting(url(), kSlow || by_consensus() ? 100 : on_disk() ? 300 : 1'000);
}

}  // namespace
}  // namespace holdfast::testing
