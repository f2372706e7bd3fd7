// One etcd for all tests of the program, and a prefix of its own for each.
#include "tests/library/bound_places.h"
#include "tests/library/fixture.h"
#include "tests/support/etcd_server.h"

namespace holdfast::testing {
namespace {

support::EtcdCluster& server() {
  static support::EtcdCluster one;
  return one;
}

class EtcdPlace final : public Place {
 public:
  std::string url() const override {
    return server().url("/" + prefix_ + "?session=" HOLDFAST_TEST_SESSION);
  }

 private:
  static inline int places_ = 0;
  const std::string prefix_ = "test" + std::to_string(++places_);
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"etcd"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<EtcdPlace>(); }

std::string no_place_because() { return support::EtcdCluster::unavailable().value_or(""); }

std::string not_supported_because(const std::string& test_case) {
  return not_supported_by_sessions(test_case);
}

}  // namespace holdfast::testing
