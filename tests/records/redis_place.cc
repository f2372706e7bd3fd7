// One Redis that syncs each change, and a key space of its own for each case.
#include "tests/records/place.h"
#include "tests/support/redis_server.h"

namespace holdfast::testing {
namespace {

support::RedisServer& server() {
  static support::RedisServer one({.appendonly = true});
  return one;
}

class RedisPlace final : public Place {
 public:
  RedisPlace() { server().flushall(); }
  std::string url(const std::string& query) const override {
    return with_query(server().url(), query);
  }
  std::string forgets() const override { return "a fail-over may forget it"; }
  bool has_clock() const override { return true; }
  bool has_server() const override { return true; }
  void kill_and_start() override {
    server().kill9();
    server().start();
  }
  void pause() override { server().pause(); }
  void resume() override { server().resume(); }
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"redis"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<RedisPlace>(); }

std::string no_place_because() { return support::RedisServer::unavailable().value_or(""); }

}  // namespace holdfast::testing
