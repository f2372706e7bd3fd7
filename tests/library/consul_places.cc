// One Consul for all tests of the program, and a prefix of its own for each.
#include "tests/library/bound_places.h"
#include "tests/library/fixture.h"
#include "tests/support/consul_server.h"

namespace holdfast::testing {
namespace {

support::ConsulServer& server() {
  static support::ConsulServer one;
  return one;
}

class ConsulPlace final : public Place {
 public:
  std::string url() const override {
    return "consul://127.0.0.1:" + std::to_string(server().port()) + "/" + prefix_ +
           "?session=" HOLDFAST_TEST_SESSION;
  }

 private:
  static inline int places_ = 0;
  const std::string prefix_ = "test" + std::to_string(++places_);
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"consul"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<ConsulPlace>(); }

std::string no_place_because() { return support::ConsulServer::unavailable().value_or(""); }

std::string not_supported_because(const std::string& test_case) {
  return not_supported_by_sessions(test_case);
}

}  // namespace holdfast::testing
