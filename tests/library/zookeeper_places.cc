// One ZooKeeper for all tests of the program, and a chroot of its own for each.
#include "tests/library/bound_places.h"
#include "tests/library/fixture.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::testing {
namespace {

support::ZookeeperServer& server() {
  static support::ZookeeperServer one;
  return one;
}

class ZookeeperPlace final : public Place {
 public:
  std::string url() const override {
    return server().url("/" + chroot_ + "?session=" HOLDFAST_TEST_SESSION);
  }

 private:
  static inline int places_ = 0;
  const std::string chroot_ = "test" + std::to_string(++places_);
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"zookeeper"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<ZookeeperPlace>(); }

std::string no_place_because() { return support::ZookeeperServer::unavailable().value_or(""); }

std::string not_supported_because(const std::string& test_case) {
  return not_supported_by_sessions(test_case);
}

}  // namespace holdfast::testing
