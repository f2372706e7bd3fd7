// One ZooKeeper, and a chroot of its own for each case.
#include "tests/records/place.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::testing {
namespace {

support::ZookeeperServer& server() {
  static support::ZookeeperServer one;
  return one;
}

class ZookeeperPlace final : public Place {
 public:
  std::string url(const std::string& query) const override {
    return with_query(server().url("/" + prefix_), query);
  }
  bool has_server() const override { return true; }
  void kill_and_start() override {
    server().kill9();
    server().start();
    server().await_serving();
  }
  void pause() override { server().pause(); }
  void resume() override { server().resume(); }

 private:
  static inline int places_ = 0;
  const std::string prefix_ = "test" + std::to_string(++places_);
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"zookeeper"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<ZookeeperPlace>(); }

std::string no_place_because() { return support::ZookeeperServer::unavailable().value_or(""); }

}  // namespace holdfast::testing
