// A Redis server for each test.
#include "tests/library/fixture.h"
#include "tests/support/redis_server.h"

namespace holdfast::testing {
namespace {

class RedisPlace final : public Place {
 public:
  std::string url() const override { return server_.url(); }

 private:
  support::RedisServer server_;
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"redis"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<RedisPlace>(); }

std::string no_place_because() { return support::RedisServer::unavailable().value_or(""); }

std::string not_supported_because(const std::string&) { return {}; }

}  // namespace holdfast::testing
