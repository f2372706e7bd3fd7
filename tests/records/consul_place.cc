// One Consul, and a prefix of its own for each case.
#include "tests/records/place.h"
#include "tests/support/consul_server.h"

namespace holdfast::testing {
namespace {

support::ConsulServer& server() {
  static support::ConsulServer one;
  return one;
}

class ConsulPlace final : public Place {
 public:
  std::string url(const std::string& query) const override {
    return with_query("consul://127.0.0.1:" + std::to_string(server().port()) + "/" + prefix_,
                      query);
  }
  bool has_server() const override { return true; }
  void kill_and_start() override {
    server().kill9();
    server().start();
  }
  void pause() override { server().pause(); }
  void resume() override { server().resume(); }

 private:
  static inline int places_ = 0;
  const std::string prefix_ = "test" + std::to_string(++places_);
};

}  // namespace

std::vector<std::string> stores_under_test() { return {"consul"}; }

std::unique_ptr<Place> make_place(const std::string&) { return std::make_unique<ConsulPlace>(); }

std::string no_place_because() { return support::ConsulServer::unavailable().value_or(""); }

}  // namespace holdfast::testing
