// One etcd of one member, and a prefix of its own for each case.
#include <string>

#include "tests/records/place.h"
#include "tests/support/etcd_server.h"

namespace holdfast::testing {
namespace {

support::EtcdCluster& cluster() {
  static support::EtcdCluster one;
  return one;
}

class EtcdPlace final : public Place {
 public:
  EtcdPlace() {
    static int places = 0;
    prefix_ = "place-" + std::to_string(++places);
  }
  std::string url(const std::string& query) const override {
    return with_query(cluster().url() + "/" + prefix_, query);
  }
  bool has_server() const override { return true; }
  void kill_and_start() override {
    cluster().kill9();
    cluster().start();
  }
  void pause() override { cluster().pause(); }
  void resume() override { cluster().resume(); }

 private:
  std::string prefix_;
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"etcd"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<EtcdPlace>(); }

std::string no_place_because() { return support::EtcdCluster::unavailable().value_or(""); }

}  // namespace holdfast::testing
