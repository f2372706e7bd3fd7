// A Redis Cluster of three, whose slots all keys of a case are spread over.
#include "tests/records/place.h"
#include "tests/support/redis_cluster.h"

namespace holdfast::testing {
namespace {

support::RedisCluster& cluster() {
  static support::RedisCluster one({.server = {.appendonly = true}});
  return one;
}

class RedisClusterPlace final : public Place {
 public:
  RedisClusterPlace() {
    for (std::size_t i = 0; i < cluster().size(); ++i) cluster().node(i).flushall();
  }
  std::string url(const std::string& query) const override {
    return with_query(cluster().url(), query);
  }
  std::string forgets() const override { return "a fail-over may forget it"; }
  bool has_clock() const override { return true; }
  bool has_server() const override { return true; }
  void kill_and_start() override {
    for (std::size_t i = 0; i < cluster().size(); ++i) cluster().node(i).kill9();
    for (std::size_t i = 0; i < cluster().size(); ++i) cluster().node(i).start();
    cluster().await_whole();
  }
  void pause() override {
    for (std::size_t i = 0; i < cluster().size(); ++i) cluster().pause(i);
  }
  void resume() override {
    for (std::size_t i = 0; i < cluster().size(); ++i) cluster().resume(i);
  }
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"redis_cluster"}; }

std::unique_ptr<Place> make_place(const std::string&) {
  return std::make_unique<RedisClusterPlace>();
}

std::string no_place_because() { return support::RedisServer::unavailable().value_or(""); }

}  // namespace holdfast::testing
