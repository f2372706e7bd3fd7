// A lock service of its own for each test, in this process. Its journal has a prefix of its own in
// the program's etcd.
#include <algorithm>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>

#include "holdfast/server.h"
#include "tests/library/bound_places.h"
#include "tests/library/fixture.h"
#include "tests/support/etcd_server.h"

namespace holdfast::testing {
namespace {

support::EtcdCluster& etcd() {
  static support::EtcdCluster one;
  return one;
}

class HoldfastPlace final : public Place {
 public:
  HoldfastPlace() {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.journal = etcd().url("/test" + std::to_string(++places_) + "?leadership=5s");
    options.shards = 1;  // Several are shared by a plan, which would take a second for each test.
    auto started = Server::start(std::move(options));
    if (!started) throw std::runtime_error(started.error().message());
    server_ = *std::move(started);
  }
  std::string url() const override { return server_->url(); }

 private:
  static inline int places_ = 0;
  std::optional<Server> server_;
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"holdfast"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<HoldfastPlace>(); }

std::string no_place_because() { return {}; }

std::string not_supported_because(const std::string& test_case) {
  if (test_case == "LeaseTest.ALeaseIsRenewedAfterThousandsOfAdoptions") {
    return "thousands of commits in etcd take minutes";
  }
  if (test_case == "ElectionTest.AnObserverLearnsOfAProclamationAtOnce") {
    return "the look at the value waits for a write, of which there are ten a second";
  }
  const auto* const found =
      std::find(std::begin(kNeedLeasesOfTheirOwn), std::end(kNeedLeasesOfTheirOwn), test_case);
  // They last some hundred milliseconds, and a machine may be busy.
  return found == std::end(kNeedLeasesOfTheirOwn)
             ? std::string()
             : "its leases are shorter than a commit in etcd may take";
}

}  // namespace holdfast::testing
