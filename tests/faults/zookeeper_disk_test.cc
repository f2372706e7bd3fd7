// A ZooKeeper whose disk is full. It stops itself when it cannot write its log.
#include <gtest/gtest.h>

#include "tests/faults/full_disk.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::faults {
namespace {

[[maybe_unused]] const bool kMounts = support::keep_mounts_private();

class ZookeeperDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_ZOOKEEPER();
    HOLDFAST_NEEDS_SMALL_DISK();
    disk_ = std::make_unique<support::SmallDisk>(folder_.path(), 4);
    server_ = std::make_unique<support::ZookeeperServer>(
        support::ZookeeperOptions{.data = folder_.path()});
  }
  FullDiskServer server() {
    return {.address = server_->servers(),
            .url = [&](auto& session) { return server_->url("?session=" + session); },
            .running = [&] { return server_->running(); },
            .start =
                [&] {
                  server_->start();
                  server_->await_serving();
                },
            .log = [&] { return server_->log(); }};
  }

  support::TempFolder folder_{"disk"};
  std::unique_ptr<support::SmallDisk> disk_;
  std::unique_ptr<support::ZookeeperServer> server_;
};

TEST_F(ZookeeperDiskTest, NobodyHoldsTwiceAndHoldersAreTold) {
  expect_that_holders_are_told(*disk_, server());
}

TEST_F(ZookeeperDiskTest, RoomThatIsMadeInTimeCostsNoLock) {
  expect_that_room_in_time_costs_no_lock(*disk_, server());
}

}  // namespace
}  // namespace holdfast::faults
