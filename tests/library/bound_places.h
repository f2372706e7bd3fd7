// Cases that a store whose leases are bound to its clients (Guarantees::bound_to_client) cannot
// support, by name: what they are about is what such a store refuses. And how long sessions are.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

// Some cases wait for the end of a session; a program without them has longer ones, which a busy
// machine keeps.
#ifndef HOLDFAST_TEST_SESSION
#define HOLDFAST_TEST_SESSION "2s"
#endif

namespace holdfast::testing {

// Leases shorter than a session, or with a length of their own.
inline constexpr std::string_view kNeedLeasesOfTheirOwn[] = {
    "BarrierTest.ACrashBreaksItForTheOthersUntilItIsReset",
    "BarrierTest.ACrashIsNotAwaitedWhereThatWasChosen",
    "BarrierTest.WhoLostItsSeatIsTold",
    "ClientTest.InspectTellsWhoHoldsAndWhy",
    "ClientTest.TheUrlsTtlIsTheDefault",
    "LeaseTest.ABlockingCallbackDoesNotStopRenewals",
    "LatchTest.ANameThatIsHeldForSomethingElseIsRefusedWhileItIsHeld",
    "LeaseTest.ADetachedLeaseRunsOut",
    "LeaseTest.ALateReleaseDoesNotTouchTheNextHolder",
    "LeaseTest.ALeaseIsRenewedInTheBackground",
    "LeaseTest.AWaitWithoutRenewalsEndsWithAWholeLease",
    "LeaseTest.AnAdoptedLeaseIsRenewed",
    "LeaseTest.ManyLeasesAreRenewedTogether",
    "LeaseTest.MaxHoldEndsARunawayHolder",
    "LeaseTest.ReleaseAndRenewOfALostLeaseSaySo",
    "LeaseTest.RenewGivesAFullLease",
    "LeaseTest.TheLeaseOutlivesClientAndMutexObjects",
    "LeaseTest.TheLossIsToldBeforeAnotherCanHoldTheLock",
    "MultiLockTest.WaitsForTheOneThatIsHeldAndRenewsTheOthersMeanwhile",
    "MutexTest.TheUnlockOfALockThatWasLostFreesNoOther",
    "ObserverTest.AHoldThatRanOutRightBeforeItIsLetGoIsALoss",
    "ObserverTest.ALossIsLoggedAsData",
    "ObserverTest.HowAHoldEndedIsTold",
    "RecursiveMutexTest.ALostLeaseIsNotReentered",
    "SemaphoreTest.ACrashedHoldersPermitsComeBack",
    "SharedMutexTest.AnUpgradeIsLostWithTheReadersLease",
};

// These cases expect a grant in the step that makes way for it: here its client grants it later.
inline constexpr std::string_view kNeedOneStep[] = {
    "SemaphoreTest.ShrinksWhenPermitsHaveComeBack",
};

// Store::watch_value().
inline constexpr std::string_view kNeedNewsOfValues[] = {
    "ElectionTest.AnObserverLearnsOfAProclamationAtOnce",
    "LatchTest.WhoWaitsLearnsOfTheOpeningAtOnce",
};

inline std::string not_supported_by_sessions(std::string_view test_case) {
  const auto has = [&](const auto& cases) {
    return std::find(std::begin(cases), std::end(cases), test_case) != std::end(cases);
  };
  if (has(kNeedLeasesOfTheirOwn)) return "leases last as long as the session";
  if (has(kNeedNewsOfValues)) return "values that are set are found by looking, not told";
  if (has(kNeedOneStep)) return "a shrink is finished a little later";
  return {};
}

}  // namespace holdfast::testing
