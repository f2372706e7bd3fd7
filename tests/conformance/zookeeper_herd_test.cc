// A thousand waiters on one name: what the server has to say about a release stays the same.
#include <vector>

#include "src/stores/zookeeper/zookeeper_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::testing {
namespace {

class HerdSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_zookeeper_store(*port::StoreUrl::parse(server_.url("?session=120s")),
                                        context);
  }
  void pass(Duration) override {}
  std::int64_t packets_sent() const { return server_.figure("zk_packets_sent"); }

 private:
  support::ZookeeperServer server_;
};

class Herd {
 public:
  Herd(HerdSite& site, std::string name) : site_(site), name_(std::move(name)) {
    for (int i = 0; i < 10; ++i) {
      clients_.push_back(std::make_unique<Client>(site, "client" + std::to_string(i)));
    }
    EXPECT_TRUE(clients_[0]->acquire(request(0)));
  }

  // One after the other, so that they stand in the order of their numbers.
  void grow_to(std::size_t waiters) {
    for (; queued_ <= waiters; ++queued_) {
      const auto asked = owner(queued_).acquire(request(queued_));
      ASSERT_TRUE(asked) << asked.error().message();
      ASSERT_EQ(asked->status, TicketStatus::kWaiting);
    }
  }

  // What the server sends for one release, until the next one holds.
  std::int64_t cost_of_a_release() {
    const std::int64_t before = site_.packets_sent();
    EXPECT_TRUE(owner(holder_).release(name_, id(holder_)));
    ++holder_;
    EXPECT_TRUE(owner(holder_).inbox().next(id(holder_), std::chrono::seconds(60)));
    return site_.packets_sent() - before;
  }

 private:
  AcquisitionId id(std::size_t number) const { return {7, number + 1}; }
  Client& owner(std::size_t number) { return *clients_[number % clients_.size()]; }
  Request request(std::size_t number) const {
    return Request(name_, id(number)).leases(std::chrono::hours(1), std::chrono::hours(1));
  }

  HerdSite& site_;
  const std::string name_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::size_t queued_ = 1;
  std::size_t holder_ = 0;
};

TEST(ZookeeperHerd, WakeUpsPerReleaseDoNotGrowWithTheQueue) {
  HOLDFAST_NEEDS_ZOOKEEPER();
  HerdSite site;
  Herd herd(site, "orders");
  const auto most_of_five = [&] {
    std::int64_t most = 0;
    for (int i = 0; i < 5; ++i) most = std::max(most, herd.cost_of_a_release());
    return most;
  };
  herd.grow_to(20);
  const std::int64_t few = most_of_five();
  herd.grow_to(1000);
  const std::int64_t many = most_of_five();
  // The release, the event, what the next one reads; beside them keepalives and these questions.
  EXPECT_LE(few, 12);
  EXPECT_LE(many, 12) << "beside " << few << " with twenty waiters";
}

}  // namespace
}  // namespace holdfast::testing
