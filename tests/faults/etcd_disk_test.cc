// An etcd whose disk is full, not its quota only.
#include <gtest/gtest.h>

#include "tests/faults/full_disk.h"
#include "tests/support/etcd_server.h"

namespace holdfast::faults {
namespace {

[[maybe_unused]] const bool kMounts = support::keep_mounts_private();

// It reserves its log ahead in files of 64 MB each, two of them.
constexpr std::int64_t kMegabytes = 160;

class EtcdDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_ETCD();
    HOLDFAST_NEEDS_SMALL_DISK();
    disk_ = std::make_unique<support::SmallDisk>(folder_.path(), kMegabytes);
    server_ = std::make_unique<support::EtcdCluster>(support::EtcdOptions{.data = folder_.path()});
  }
  FullDiskServer server() {
    return {.address = "127.0.0.1:" + std::to_string(server_->port()),
            .url = [&](auto& session) { return server_->url("?session=" + session); },
            .running = [&] { return server_->running(); },
            .start = [&] { server_->start(); },
            .log = [&] { return server_->log(); }};
  }

  support::TempFolder folder_{"disk"};
  std::unique_ptr<support::SmallDisk> disk_;
  std::unique_ptr<support::EtcdCluster> server_;
};

TEST_F(EtcdDiskTest, NobodyHoldsTwiceAndHoldersAreTold) {
  expect_that_holders_are_told(*disk_, server());
}

TEST_F(EtcdDiskTest, RoomThatIsMadeInTimeCostsNoLock) {
  expect_that_room_in_time_costs_no_lock(*disk_, server());
}

}  // namespace
}  // namespace holdfast::faults
