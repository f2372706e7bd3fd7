// A MariaDB whose disk is full. It refuses what needs room, and goes on with what does not, since
// its log has a size of its own.
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "tests/faults/full_disk.h"
#include "tests/support/mariadb_server.h"

namespace holdfast::faults {
namespace {

[[maybe_unused]] const bool kMounts = support::keep_mounts_private();

class MysqlDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_MARIADB();
    HOLDFAST_NEEDS_SMALL_DISK();
    disk_ = std::make_unique<support::SmallDisk>(folder_.path(), 96);
    server_ = std::make_unique<support::MariadbServer>(
        support::MariadbOptions{.tcp = true,
                                 .settings = {"--innodb-flush-log-at-trx-commit=1"},
                                .data_folder = folder_.path() + "/data"});
  }
  FullDiskServer server() {
    return {.address = "127.0.0.1:" + std::to_string(server_->port()),
            .url =
                [&](const std::string& lease) {
                  return "mysql://root@127.0.0.1:" + std::to_string(server_->port()) +
                         "/test?connect_timeout=1s&ttl=" + lease;
                },
            .stops_itself = false,
            .running = [&] { return server_->running(); },
            .start = [&] { server_->start(); },
            .log = [&] { return std::string(); }};
  }

  support::TempFolder folder_{"disk"};
  std::unique_ptr<support::SmallDisk> disk_;
  std::unique_ptr<support::MariadbServer> server_;
};

TEST_F(MysqlDiskTest, RoomThatIsMadeInTimeCostsNoLock) {
  expect_that_room_in_time_costs_no_lock(*disk_, server());
}

}  // namespace
}  // namespace holdfast::faults
