#include "src/server/front/ready_set.h"

#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <system_error>
#include <vector>

#include <asio/io_context.hpp>
#include <gtest/gtest.h>

namespace holdfast::server {
namespace {

class ReadySetTest : public ::testing::Test {
 protected:
  ~ReadySetTest() override {
    for (const int fd : others_) ::close(fd);
  }

  // A socket of the set, whose other end can send.
  std::unique_ptr<ReadySet::Socket> socket() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return {};
    others_.push_back(ends[1]);
    return std::make_unique<ReadySet::Socket>(set_, ends[0]);
  }
  void send(std::size_t to) { ASSERT_EQ(::write(others_.at(to), "x", 1), 1); }
  // Until nothing more is ready; the number of the loop's tasks.
  std::size_t poll() {
    io_.restart();
    return io_.poll();
  }

  asio::io_context io_;
  const std::shared_ptr<ReadySet> set_ = ReadySet::make(io_);
  std::vector<int> others_;
};

TEST_F(ReadySetTest, AWaitIsToldOnceAndNeverInline) {
  const auto one = socket();
  send(0);
  int told = 0;
  one->when_readable([&](std::error_code error) { told += error ? 100 : 1; });
  EXPECT_EQ(told, 0);
  poll();
  EXPECT_EQ(told, 1);
  // The byte lies there still: a new wait is told of it.
  one->when_readable([&](std::error_code) { ++told; });
  poll();
  EXPECT_EQ(told, 2);
}

TEST_F(ReadySetTest, TwoWaitsOfOneKindAreBothTold) {
  const auto one = socket();
  int told = 0;
  one->when_readable([&](std::error_code) { ++told; });
  one->when_readable([&](std::error_code) { ++told; });
  one->when_writable([&](std::error_code) { told += 10; });
  poll();
  EXPECT_EQ(told, 10);
  send(0);
  poll();
  EXPECT_EQ(told, 12);
}

TEST_F(ReadySetTest, ASocketThatAnotherOnesWaitEndsIsNotTold) {
  auto first = socket();
  auto second = socket();
  int told = 0;
  first->when_readable([&](std::error_code) { ++told, second.reset(); });
  second->when_readable([&](std::error_code) { ++told, first.reset(); });
  send(0);
  send(1);
  poll();
  EXPECT_EQ(told, 1);
}

TEST_F(ReadySetTest, AWaitMayEndItsOwnSocket) {
  auto one = socket();
  int told = 0;
  one->when_readable([&](std::error_code) { ++told, one.reset(); });
  one->when_writable([&](std::error_code) { told += 10; });
  send(0);
  poll();
  EXPECT_EQ(told, 1) << "a closed socket was told";
}

TEST_F(ReadySetTest, TheLoopRestsWhereNobodyWaits) {
  const auto one = socket();
  one->when_readable([](std::error_code) {});
  send(0);
  poll();
  poll();  // Told without a waiter: from now on the kernel is not asked for it.
  EXPECT_EQ(poll(), 0U);
}

TEST_F(ReadySetTest, AnEndOfTheOtherSideIsTold) {
  const auto one = socket();
  bool told = false;
  one->when_readable([&](std::error_code) { told = true; });
  ::shutdown(others_.front(), SHUT_RDWR);
  poll();
  EXPECT_TRUE(told);
}

TEST_F(ReadySetTest, TheLoopEndsWithTheLastSocket) {
  auto one = socket();
  one->when_readable([](std::error_code) {});
  poll();
  EXPECT_FALSE(io_.stopped()) << "the loop ended while a socket waited";
  one.reset();
  poll();
  EXPECT_TRUE(io_.stopped());
}

}  // namespace
}  // namespace holdfast::server
