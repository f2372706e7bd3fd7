// A thousand waiters on one name, each with a blocking query of its own: how many of these a
// release ends stays the same.
#include <string_view>

#include "src/stores/consul/consul_store.h"
#include "tests/conformance/herd.h"
#include "tests/support/consul_server.h"

namespace holdfast::testing {
namespace {

// The server writes a line for every request that it has answered.
class HerdSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    const auto url = port::StoreUrl::parse(server_.url({{"session", "120s"}}));
    return stores::make_consul_store(*url, context);
  }
  void pass(Duration) override {}

  // Requests of Consul's interface that have come to their end; blocking queries among them.
  std::int64_t answered() const { return lines_with("/v1/"); }
  std::int64_t woken() const { return lines_with("index="); }

 private:
  std::int64_t lines_with(std::string_view what) const {
    const std::string log = server_.log();
    std::int64_t lines = 0;
    constexpr std::string_view kFinished = "Request finished:";
    for (auto at = log.find(kFinished); at != std::string::npos;) {
      const auto end = std::min(log.find('\n', at), log.size());
      if (std::string_view(log).substr(at, end - at).find(what) != std::string_view::npos) ++lines;
      at = log.find(kFinished, end);
    }
    return lines;
  }

  support::ConsulServer server_{{.log_level = "debug"}};
};

TEST(ConsulHerd, WakeUpsPerReleaseDoNotGrowWithTheQueue) {
  HOLDFAST_NEEDS_CONSUL();
  HerdSite site;
  // A client has 48 queries under way at most: so none of the waiters is without.
  Herd herd(site, /*clients=*/25, [&] { return site.answered(); });
  std::int64_t woken = 0;
  // The release, the next one's query; beside them what is left behind and renewals of sessions.
  herd.expect_constant_cost("requests", 6, [&] { woken = site.woken(); });
  const std::int64_t ended = site.woken() - woken;
  Herd::note("queries_ended_by_five_releases", ended);
  EXPECT_LE(ended, 10) << "of a thousand queries";
}

}  // namespace
}  // namespace holdfast::testing
