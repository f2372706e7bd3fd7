// The site of a store whose server serves all cases, since starting it costs more than they do: a
// place of its own on that server. Nothing in it depends on how much time goes by.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "tests/conformance/harness.h"

namespace holdfast::testing {

struct OneServer {
  std::string (*url)(const std::string& place);
  Result<std::unique_ptr<port::Store>> (*make)(port::StoreUrl, const port::StoreContext&);
  void (*restart)();
};

template <const OneServer& kServer>
class ServerSite final : public Site {
 public:
  static std::unique_ptr<Site> make() { return std::make_unique<ServerSite>(); }

  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return kServer.make(*port::StoreUrl::parse(kServer.url(place_)), context);
  }
  void pass(Duration time) override {
    std::this_thread::sleep_for(std::min<Duration>(time, std::chrono::milliseconds(20)));
  }
  void restart() override { kServer.restart(); }

 private:
  static inline std::atomic<int> last_{0};
  const std::string place_ = "site-" + std::to_string(++last_);
};

}  // namespace holdfast::testing
