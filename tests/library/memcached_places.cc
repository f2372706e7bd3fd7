// One memcached for all tests of the program, empty at the beginning of each.
#include "tests/library/fixture.h"
#include "tests/support/memcached_server.h"

namespace holdfast::testing {
namespace {

support::MemcachedServer& server() {
  static support::MemcachedServer one;
  return one;
}

class MemcachedPlace final : public Place {
 public:
  MemcachedPlace() { server().flush_all(); }
  std::string url() const override { return server().url(); }
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"memcached"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<MemcachedPlace>(); }

std::string no_place_because() { return support::MemcachedServer::unavailable().value_or(""); }

std::string not_supported_because(const std::string& test_case) {
  if (test_case.starts_with("DeadlockTest.")) return "no list, so deadlocks are not detected";
  for (const char* each :
       {"ClientTest.AWatch", "ClientTest.List", "ClientTest.NamespacesDoNotMeet"}) {
    if (test_case.starts_with(each)) return "no list, and so no watch";
  }
  for (const char* each : {"ElectionTest.AnObserverLearnsOfAProclamationAtOnce",
                           "LatchTest.WhoWaitsLearnsOfTheOpeningAtOnce"}) {
    if (test_case == each) return "changes of values are not told";
  }
  for (const char* each :
       {"LeaseTest.ABreakIsToldAlsoWhenItsClientIsClosedAtOnce",
        "LeaseTest.ABrokenHolderIsToldWhoDidIt",
        "LeaseTest.WhatABreakSaysIsShownEscapedAndNoOtherTryIsPromised",
        "WithLockTest.ALossDuringTheActionIsTheAnswer"}) {
    if (test_case == each) return "a holder learns of a break at its next renewal only";
  }
  return {};
}

}  // namespace holdfast::testing
