// A Consul whose disk is full. It goes on: it gives up its leadership and takes it again, and
// answers no write.
#include <gtest/gtest.h>

#include "tests/faults/full_disk.h"
#include "tests/support/consul_server.h"

namespace holdfast::faults {
namespace {

[[maybe_unused]] const bool kMounts = support::keep_mounts_private();

class ConsulDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_CONSUL();
    HOLDFAST_NEEDS_SMALL_DISK();
    disk_ = std::make_unique<support::SmallDisk>(folder_.path(), 8);
    server_ = std::make_unique<support::ConsulServer>(
        support::ConsulOptions{.data_folder = folder_.path() + "/data"});
  }
  FullDiskServer server() {
    return {.address = "127.0.0.1:" + std::to_string(server_->port()),
            .url =
                [&](auto& session) {
                  return server_->url({{"session", session}});
                },
            .stops_itself = false,
            .running = [&] { return server_->running(); },
            .start = [&] { server_->start(); },
            .log = [&] { return server_->log(); }};
  }

  support::TempFolder folder_{"disk"};
  std::unique_ptr<support::SmallDisk> disk_;
  std::unique_ptr<support::ConsulServer> server_;
};

TEST_F(ConsulDiskTest, NobodyHoldsTwiceAndHoldersAreTold) {
  expect_that_holders_are_told(*disk_, server());
}

TEST_F(ConsulDiskTest, RoomThatIsMadeInTimeCostsNoLock) {
  expect_that_room_in_time_costs_no_lock(*disk_, server());
}

}  // namespace
}  // namespace holdfast::faults
