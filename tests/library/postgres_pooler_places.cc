// One PostgreSQL behind a transaction pooler for all tests of the program, and a schema of its own
// for each.
#include "tests/library/fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/pgbouncer.h"
#include "tests/support/postgres_server.h"

namespace holdfast::testing {
namespace {

support::PostgresServer& server() {
  static support::PostgresServer one(
      {.tcp = true, .settings = {"fsync=on", "full_page_writes=on"}});
  return one;
}

std::string url_of(const support::Pgbouncer& pooler) {
  return "postgres://postgres@127.0.0.1:" + std::to_string(pooler.port()) + "/postgres";
}

// It listens.
const support::Pgbouncer& pooler() {
  static const support::Pgbouncer one(server().port());
  static const bool listens =
      support::eventually([] { return Client::connect(url_of(one)).has_value(); });
  EXPECT_TRUE(listens);
  return one;
}

class PooledPlace final : public Place {
 public:
  std::string url() const override { return url_of(pooler()) + "?schema=" + schema_; }

 private:
  static inline int places_ = 0;
  const std::string schema_ = "test" + std::to_string(++places_);
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"postgres"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<PooledPlace>(); }

std::string no_place_because() {
  const auto why = support::PostgresServer::unavailable();
  return (why ? why : support::Pgbouncer::unavailable()).value_or("");
}

std::string not_supported_because(const std::string& test_case) {
  for (const char* each : {"ElectionTest.AnObserverLearnsOfAProclamationAtOnce",
                           "LatchTest.WhoWaitsLearnsOfTheOpeningAtOnce"}) {
    if (test_case == each) return "changes of values are not told";
  }
  for (const char* each : {"LeaseTest.ABreakIsToldAlsoWhenItsClientIsClosedAtOnce",
                           "LeaseTest.ABrokenHolderIsToldWhoDidIt",
                           "LeaseTest.WhatABreakSaysIsShownEscapedAndNoOtherTryIsPromised",
                           "WithLockTest.ALossDuringTheActionIsTheAnswer"}) {
    if (test_case == each) return "a holder learns of a break at its next renewal only";
  }
  return {};
}

}  // namespace holdfast::testing
