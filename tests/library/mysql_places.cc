// One MariaDB for all tests of the program, and tables of its own for each.
#include "tests/library/fixture.h"
#include "tests/support/mariadb_server.h"

namespace holdfast::testing {
namespace {

support::MariadbServer& server() {
  static support::MariadbServer one(
      {.tcp = true, .settings = {"--innodb-flush-log-at-trx-commit=1"}});
  return one;
}

class MysqlPlace final : public Place {
 public:
  std::string url() const override {
    return "mysql://root@127.0.0.1:" + std::to_string(server().port()) + "/test?prefix=" + prefix_;
  }

 private:
  static inline int places_ = 0;
  const std::string prefix_ = "test" + std::to_string(++places_) + '_';
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"mysql"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<MysqlPlace>(); }

std::string no_place_because() { return support::MariadbServer::unavailable().value_or(""); }

std::string not_supported_because(const std::string& test_case) {
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
