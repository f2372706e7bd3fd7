#include "tests/async/scenarios.h"

#include "tests/library/fixture.h"

namespace holdfast::testing {
namespace {

class AsyncScenarios : public LibraryTest {
 protected:
  bool in_memory() const { return GetParam() == "memory"; }
};
HOLDFAST_ON_EVERY_STORE(AsyncScenarios);

TEST_P(AsyncScenarios, ACancelAtAnyStepLeavesNoTicket) { sweep_cancellation(url()); }

TEST_P(AsyncScenarios, ASignalAtAnyInstantLeavesNoTicket) { sweep_signals(url(), 100); }

TEST_P(AsyncScenarios, ACrowdOnOneThreadIsGrantedOneByOne) {
  if (in_memory()) {
    contend(url(), 10'000, 100);
  } else {
    contend(url(), 2'000, 100);
  }
}

TEST_P(AsyncScenarios, CloseAnswersEveryWait) {
  close_while_waiting(url(), in_memory() ? 1'000 : 300);
}

}  // namespace
}  // namespace holdfast::testing
