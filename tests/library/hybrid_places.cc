// One etcd for all tests of the program; a prefix and a Redis of its own for each.
#include "tests/library/bound_places.h"
#include "tests/library/fixture.h"
#include "tests/support/etcd_server.h"
#include "tests/support/redis_server.h"
#include "tests/support/url_text.h"

namespace holdfast::testing {
namespace {

support::EtcdCluster& arbiter() {
  static support::EtcdCluster one;
  return one;
}

class HybridPlace final : public Place {
 public:
  std::string url() const override {
    // With `recheck` a try may be told "busy" for a second after the release, as the page says.
    return "hybrid:?recheck=0&filter=" + support::percent_encoded(filter_.url()) + "&arbiter=" +
           support::percent_encoded(
               arbiter().url("/" + prefix_ + "?session=" HOLDFAST_TEST_SESSION)) +
           "&patience=1s";
  }

 private:
  static inline int places_ = 0;
  support::RedisServer filter_;
  const std::string prefix_ = "test" + std::to_string(++places_);
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"hybrid"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<HybridPlace>(); }

std::string no_place_because() {
  if (auto why = support::RedisServer::unavailable()) return *why;
  return support::EtcdCluster::unavailable().value_or("");
}

std::string not_supported_because(const std::string& test_case) {
  for (const char* cases :
       {"SharedMutexTest.", "SemaphoreTest.", "BarrierTest.",
        "MultiLockTest.AllAreHeldAndGivenBackTogether", "MultiLockTest.TryingTakesAllOrNothing",
        "MultiLockTest.ANameTwiceInTheSameModeIsAskedForOnce",
        "MutexTest.ReadersShareAndPermitsCount", "ObserverTest.EachLockOfASetHasItsOwnNews",
        "WithLockTest.EveryPrimitiveGivesALock"}) {
    if (test_case.starts_with(cases)) return "exclusive locks only";
  }
  return not_supported_by_sessions(test_case);
}

}  // namespace holdfast::testing
