// A PostgreSQL whose disk is full. It refuses what needs room, and goes on with what does not; when
// its log needs room, too, it stops itself.
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "tests/faults/full_disk.h"
#include "tests/support/postgres_server.h"

namespace holdfast::faults {
namespace {

[[maybe_unused]] const bool kMounts = support::keep_mounts_private();

class PostgresDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_POSTGRES();
    HOLDFAST_NEEDS_SMALL_DISK();
    disk_ = std::make_unique<support::SmallDisk>(folder_.path(), 96);
    server_ = std::make_unique<support::PostgresServer>(
        support::PostgresOptions{.tcp = true,
                                 .settings = {"full_page_writes=on"},
                                 .data_folder = folder_.path() + "/data"});
  }
  FullDiskServer server() {
    return {.address = "127.0.0.1:" + std::to_string(server_->port()),
            .url =
                [&](const std::string& lease) {
                  return "postgres://postgres@127.0.0.1:" + std::to_string(server_->port()) +
                         "/postgres?connect_timeout=1s&ttl=" + lease;
                },
            .stops_itself = false,
            .running = [&] { return server_->running(); },
            .start = [&] { server_->start(); },
            .log = [&] { return std::string(); }};
  }

  support::TempFolder folder_{"disk"};
  std::unique_ptr<support::SmallDisk> disk_;
  std::unique_ptr<support::PostgresServer> server_;
};

TEST_F(PostgresDiskTest, RoomThatIsMadeInTimeCostsNoLock) {
  expect_that_room_in_time_costs_no_lock(*disk_, server());
}

TEST_F(PostgresDiskTest, WhenTheLogIsFullHoldersAreToldAndNobodyHoldsTwice) {
  auto [holder, waiter, other, lease, waiting] = held_on_a_full_disk(*disk_, server(), "2s");
  {
    // Renewals change rows that are there, which needs room in the log only. Others fill that.
    const std::jthread others([&](const std::stop_token& over) {
      while (!over.stop_requested()) {
        try {
          server_->sql("SELECT pg_logical_emit_message(false, 'log', repeat('x', 300000))");
        } catch (const std::runtime_error&) {  // It refuses, or is not there.
        }
      }
    });
    EXPECT_TRUE(fires(lease.lost()));
  }
  EXPECT_FALSE(lease.held());
  EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout) << "nothing can be granted";
  make_room(*disk_, server());
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_GT(got->token(), lease.token());
  EXPECT_FALSE(lease.release()) << "a zombie's release";
  EXPECT_TRUE(got->renew());
  EXPECT_TRUE(other.mutex("b").acquire({.wait = kLong}));
}

}  // namespace
}  // namespace holdfast::faults
