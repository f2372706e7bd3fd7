// That what is cut is cut, of old connections too, and what is not goes on.
#include "tests/support/server_network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/child_process.h"
#include "tests/support/loopback.h"
#include "tests/support/temp_folder.h"

namespace holdfast::support {
namespace {

[[maybe_unused]] const bool kNetwork = keep_network_private();

constexpr std::uint16_t kPort = 7000;
constexpr milliseconds kSilence = 500ms;  // Far longer than a packet takes, or is sent again.

// Returns the answer of `task` on that host.
int on_host(int handle, const std::function<int()>& task) {
  int result = -1;
  std::thread([&] {
    if (::setns(handle, CLONE_NEWNET) == 0) result = task();
  }).join();
  return result;
}

int listen_at(const std::string& address) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(kPort);
  ::inet_pton(AF_INET, address.c_str(), &where.sin_addr);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool listens =
      ::bind(socket, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0 &&
      ::listen(socket, SOMAXCONN) == 0;
  return listens ? socket : -1;
}

bool happens(int socket, short what, milliseconds limit = kPatience) {
  pollfd ready{socket, what, 0};
  return ::poll(&ready, 1, static_cast<int>(limit.count())) == 1 && (ready.revents & what) != 0;
}

class ServerNetworkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_SERVER_NETWORK();
    network_ = std::make_unique<ServerNetwork>(3);
    listener_ = on_host(network_->handle(0), [&] { return listen_at(network_->address(0)); });
    ASSERT_GE(listener_, 0);
  }
  void TearDown() override { ::close(listener_); }

  // From that host to the first; -1: from the test.
  bool reaches(int from, milliseconds limit = kPatience) {
    const auto dial = [&] { return connect_to(network_->address(0), kPort); };
    const int socket =
        from < 0 ? dial() : on_host(network_->handle(static_cast<std::size_t>(from)), dial);
    const bool connected = happens(socket, POLLOUT, limit);
    if (connected) ::close(::accept(listener_, nullptr, nullptr));
    ::close(socket);
    return connected;
  }

  std::unique_ptr<ServerNetwork> network_;
  int listener_ = -1;
};

TEST_F(ServerNetworkTest, AllReachEachOtherAndTheTestReachesAll) {
  EXPECT_TRUE(reaches(-1));
  EXPECT_TRUE(reaches(1));
  EXPECT_TRUE(reaches(2));
}

TEST_F(ServerNetworkTest, WhoIsCutOffIsReachedByTheTestAlone) {
  network_->cut_off(0);
  EXPECT_FALSE(reaches(1, kSilence));
  EXPECT_FALSE(reaches(2, kSilence));
  EXPECT_TRUE(reaches(-1));
  network_->heal();
  EXPECT_TRUE(reaches(1));
  EXPECT_TRUE(reaches(2));
}

TEST_F(ServerNetworkTest, OneWayThatIsCutLeavesTheOthers) {
  network_->cut(0, 1);
  EXPECT_FALSE(reaches(1, kSilence));
  EXPECT_TRUE(reaches(2));
}

TEST_F(ServerNetworkTest, AWayThatWasCutTwiceIsOpenAfterTheSecondHeal) {
  network_->cut(0, 1);
  network_->cut_off(0);
  network_->rejoin(0);
  EXPECT_FALSE(reaches(1, kSilence));
  EXPECT_TRUE(reaches(2));
  network_->heal(0, 1);
  EXPECT_TRUE(reaches(1));
}

TEST_F(ServerNetworkTest, AClientIsCutFromOneServerAndAServerThatIsCutOffKeepsItsClients) {
  ServerNetwork network(2, 1);
  constexpr std::size_t kClient = 2;
  EXPECT_EQ(network.size(), 2U);
  const auto listens = [&](std::size_t at) {
    return on_host(network.handle(at), [&] { return listen_at(network.address(at)); });
  };
  const std::array<int, 2> listeners = {listens(0), listens(1)};
  const auto reaches = [&](std::size_t to, milliseconds limit = kPatience) {
    const auto dial = [&] { return connect_to(network.address(to), kPort); };
    const int socket = on_host(network.handle(kClient), dial);
    const bool connected = happens(socket, POLLOUT, limit);
    ::close(socket);
    return connected;
  };
  network.cut_off(0);
  EXPECT_TRUE(reaches(0));
  network.cut(kClient, 0);
  EXPECT_FALSE(reaches(0, kSilence));
  EXPECT_TRUE(reaches(1));
  network.heal(kClient, 0);
  EXPECT_TRUE(reaches(0));
  for (const int listener : listeners) ::close(listener);
}

TEST_F(ServerNetworkTest, AnOldConnectionIsSilentAndGoesOnWhenHealed) {
  const int there =
      on_host(network_->handle(1), [&] { return connect_to(network_->address(0), kPort); });
  const int here = ::accept(listener_, nullptr, nullptr);
  ASSERT_TRUE(happens(there, POLLOUT));
  network_->cut_off(1);
  ASSERT_EQ(::send(there, "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_FALSE(happens(here, POLLIN, kSilence));
  network_->heal();
  EXPECT_TRUE(happens(here, POLLIN));
  ::close(there);
  ::close(here);
}

TEST_F(ServerNetworkTest, AProgramRunsOnItsHost) {
  const TempFolder folder("network");
  ChildProcess child({.arguments = {"ip", "address", "show", "eth0"},
                      .environment = {},
                      .output = folder.file("out"),
                      .network = network_->handle(2)});
  EXPECT_EQ(child.wait(), 0);
  EXPECT_NE(tail_of(folder.file("out")).find(network_->address(2) + "/"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::support
