// Faults of a SQL server and of the network before it, seen through the public library: the same
// demands on each of them.
//
// A test program instantiates SqlServerTest and SqlClockTest with its server:
//
//   struct Place {
//     using Server = support::PostgresServer;
//     static void need();  // Skips or fails the test where there is no server.
//     static std::unique_ptr<Server> start(std::vector<std::string> settings = {});
//     static std::unique_ptr<Server> start_with_clock(const std::string& shift_file);
//     static std::unique_ptr<Server> start_with_tls(const support::KeyPair& files);
//     static std::unique_ptr<Server> start_without_tls();
//     static std::vector<std::string> crowd_settings();  // For many clients on one name.
//     static std::string url_at(const std::string& host_and_port);
//     static std::string tls_url_at(const std::string& host_and_port);  // Without options.
//     // What the message about a certificate for another host says.
//     static constexpr std::array kNamedOfAWrongHost = {std::string_view("127.0.0.1")};
//   };
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/faults/client_side.h"
#include "tests/faults/server_cases.h"
#include "tests/support/clock_shift.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/foreign_port.h"
#include "tests/support/tls_files.h"

namespace holdfast::faults {

using support::ClockShift;
using support::Direction;
using support::Fault;
using support::FaultProxy;

inline std::string at_port(std::uint16_t port) { return "127.0.0.1:" + std::to_string(port); }

template <typename Place>
std::string url_of(const typename Place::Server& server) {
  return Place::url_at(at_port(server.port()));
}

template <typename Place>
class SqlServerTest : public ::testing::Test {
 protected:
  void SetUp() override { Place::need(); }
};
TYPED_TEST_SUITE_P(SqlServerTest);

// --- Who may come in.

TYPED_TEST_P(SqlServerTest, CertificatesAreChecked) {
  const auto& files = support::tls_files();
  const auto server = TypeParam::start_with_tls(files.server);
  const auto url = [](const auto& to, const std::string& ca) {
    return TypeParam::tls_url_at(at_port(to.port())) + "?tls_ca=" + ca;
  };
  EXPECT_TRUE(hold(connect(url(*server, files.ca)), "a").held());
  const auto refused = Client::connect(url(*server, files.foreign_ca));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kPermissionDenied) << refused.error().message();

  const auto elsewhere = TypeParam::start_with_tls(files.wrong_host);
  const auto wrong = Client::connect(url(*elsewhere, files.ca));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code(), Errc::kPermissionDenied) << wrong.error().message();
  for (const std::string_view named : TypeParam::kNamedOfAWrongHost) {
    EXPECT_NE(wrong.error().message().find(named), std::string::npos) << wrong.error().message();
  }
}

TYPED_TEST_P(SqlServerTest, AServerWithoutTlsIsNotUsedWithoutIt) {
  const auto server = TypeParam::start_without_tls();
  const auto refused = Client::connect(TypeParam::tls_url_at(at_port(server->port())) +
                                       "?tls_ca=" + support::tls_files().ca);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("SSL"), std::string::npos) << refused.error().message();
}

// A silent listener, a server of another protocol that waits, and one that speaks first.
TYPED_TEST_P(SqlServerTest, AnotherServerAtThePortIsAnErrorInTime) {
  const support::ForeignPort::Manners all[] = {
      {"", ""},
      {"", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"},
      {"SSH-2.0-OpenSSH_9.2p1\r\n", "Protocol mismatch.\r\n"},
      {"", "-ERR unknown command\r\n"}};
  for (const auto& manners : all) {
    const support::ForeignPort port(manners);
    ClientOptions options;
    options.request_timeout = 2s;
    const auto begin = base::BootClock::now();
    const auto refused = Client::connect(TypeParam::url_at(at_port(port.port())), options);
    EXPECT_LT(base::BootClock::now() - begin, 2s + kBusyMachine);
    ASSERT_FALSE(refused) << manners.greeting << manners.answer;
    const std::string& text = refused.error().message();
    EXPECT_EQ(refused.error().code(), Errc::kUnavailable) << text;
    EXPECT_NE(text.find(at_port(port.port())), std::string::npos) << text;
    EXPECT_EQ(text.find('\r'), std::string::npos) << text;
  }
}

// --- The server stands still, or is cut off.

TYPED_TEST_P(SqlServerTest, AHolderIsToldOfItsLossWhileTheServerIsPaused) {
  const auto server = TypeParam::start();
  const Client one = connect(url_of<TypeParam>(*server));
  const Client two = connect(url_of<TypeParam>(*server));
  expect_told_before_another_holds(
      one, two,
      [&] {
        server->pause();
        const auto tried = two.mutex("b").try_acquire();
        EXPECT_FALSE(tried) << "the server goes on";
      },
      [&] { server->resume(); });
}

TYPED_TEST_P(SqlServerTest, AHolderThatIsCutOffIsToldBeforeAnotherHolds) {
  const auto server = TypeParam::start();
  FaultProxy proxy({.server_port = server->port()});
  const Client one = connect(TypeParam::url_at(at_port(proxy.port())));
  const Client two = connect(url_of<TypeParam>(*server));
  expect_told_before_another_holds(
      one, two,
      [&] {
        proxy.add({.kind = Fault::Kind::kBlackhole});
        proxy.add({.kind = Fault::Kind::kBlackhole, .direction = Direction::kToClient});
      },
      [&] { proxy.remove_all(); });
}

TYPED_TEST_P(SqlServerTest, AReleaseThatArrivesWhenAnotherHoldsFreesNothing) {
  const auto server = TypeParam::start();
  FaultProxy proxy({.server_port = server->port()});
  const Client one = connect(TypeParam::url_at(at_port(proxy.port())), 300ms);
  const Client two = connect(url_of<TypeParam>(*server));
  Lease lease = hold_for(one, "a", 500ms);
  const int held = proxy.add({.kind = Fault::Kind::kHold, .direction = Direction::kToServer});
  const auto released = lease.release();
  ASSERT_FALSE(released);
  EXPECT_TRUE(released.error().code() == Errc::kOutcomeUnknown ||
              released.error().code() == Errc::kUnavailable)
      << released.error().message();
  ASSERT_TRUE(proxy.wait_for_hits(held));
  const Lease next = hold(two, "a");
  const auto before = support::at(proxy.stats().forwarded, Direction::kToServer);
  proxy.remove(held);
  ASSERT_TRUE(proxy.wait_for([&](const support::ProxyStats& stats) {
    return support::at(stats.forwarded, Direction::kToServer) > before &&
           support::at(stats.pending, Direction::kToServer) == 0;
  }));
  EXPECT_TRUE(eventually([&] { return one.inspect("a").has_value(); }));
  ASSERT_EQ(holders_of(two, "a"), 1U);
  EXPECT_EQ(two.inspect("a").value()->holders.front().token, next.token());
}

// However little of it has come: the statement may have been carried out.
TYPED_TEST_P(SqlServerTest, AnAnswerThatBreaksOffIsLookedUp) {
  const auto server = TypeParam::start();
  FaultProxy proxy({.server_port = server->port()});
  const Client one = connect(TypeParam::url_at(at_port(proxy.port())), 20s);
  const Client two = connect(url_of<TypeParam>(*server));
  Token last = [&] {
    Lease first = hold(one, "half");
    expect_released(first);
    return first.token();
  }();
  std::uint64_t resets = 0;
  for (const std::size_t bytes : {1U, 3U, 4U, 5U, 7U, 10U, 20U, 40U}) {
    SCOPED_TRACE(bytes);
    const auto breaks_off = [&](auto call) {
      proxy.add({.kind = Fault::Kind::kReset,
                 .direction = Direction::kToClient,
                 .times = 1,
                 .after_bytes = bytes});
      auto got = call();
      EXPECT_EQ(proxy.stats().resets, ++resets);
      return got;
    };
    auto got = breaks_off([&] { return one.mutex("half").try_acquire(); });
    ASSERT_TRUE(got) << got.error().message();
    ASSERT_TRUE(*got) << "it stands in its own way";
    EXPECT_GT((*got)->token(), std::exchange(last, (*got)->token()));
    EXPECT_EQ(holders_of(two, "half"), 1U);
    const auto released = breaks_off([&] { return (*got)->release(); });
    EXPECT_TRUE(released) << released.error().message();
    EXPECT_TRUE(nobody_holds(two, "half"));
  }
}

// --- Clients that die, and many of them.

TYPED_TEST_P(SqlServerTest, WhenTheHolderIsKilledTenWaitersFollowInOrder) {
  const auto server = TypeParam::start();
  expect_ten_waiters_to_follow_a_killed_holder(url_of<TypeParam>(*server));
}

// Deadlocks, serialization failures and lock timeouts are not theirs to see.
TYPED_TEST_P(SqlServerTest, ThirtyTwoProcessesOnOneNameSeeNoError) {
  const auto server = TypeParam::start(TypeParam::crowd_settings());
  std::string url = url_of<TypeParam>(*server);
  url.replace(url.find("500ms"), 5, "30s");  // They connect all at once.
  expect_32_processes_to_see_no_error(url);
}

TYPED_TEST_P(SqlServerTest, AJumpOfTheClientsClockChangesNothing) {
  const auto server = TypeParam::start();
  expect_a_clients_clock_to_change_nothing(url_of<TypeParam>(*server));
}

// --- The server's clock.

template <typename Place>
class SqlClockTest : public SqlServerTest<Place> {
 protected:
  void SetUp() override {
    SqlServerTest<Place>::SetUp();
    if (this->IsSkipped() || this->HasFatalFailure()) return;
    server_ = Place::start_with_clock(clock_.path());
    one_ = connect(url_of<Place>(*server_));
    two_ = connect(url_of<Place>(*server_));
  }

  ClockShift clock_;
  std::unique_ptr<typename Place::Server> server_;
  std::optional<Client> one_, two_;
};
TYPED_TEST_SUITE_P(SqlClockTest);

TYPED_TEST_P(SqlClockTest, AheadTwoBelieveTheyHoldAndTheFirstIsToldWhenItRenews) {
  Lease lease = hold_for(*this->one_, "a", 30s);
  Lease watched = hold_for(*this->one_, "long", 60s);
  this->clock_.set(40s);
  Lease next = hold_for(*this->two_, "a", 30s);
  EXPECT_TRUE(lease.held()) << "the declared cell: it cannot know yet";
  EXPECT_GT(next.token(), lease.token());
  const auto renewed = lease.renew();
  ASSERT_FALSE(renewed);
  EXPECT_EQ(renewed.error().code(), Errc::kLost);
  EXPECT_TRUE(fires(lease.lost()));
  EXPECT_FALSE(lease.release());
  EXPECT_TRUE(next.renew());
  EXPECT_TRUE(watched.renew()) << "longer than the jump";
}

TYPED_TEST_P(SqlClockTest, BackTheHolderGoesOnAndTheWaiterFollows) {
  Lease lease = hold_for(*this->one_, "a", 2s);
  auto waiting = wait_for(*this->two_, "a");
  this->clock_.set(-100s);
  EXPECT_TRUE(lease.renew());
  // Its leases are renewed for longer than the first one lasted.
  EXPECT_FALSE(fires(lease.lost(), 2500ms));
  EXPECT_TRUE(lease.held());
  EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout) << "two hold it";
  const Token first = lease.token();
  expect_released(lease);
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_GT(got->token(), first);
  EXPECT_TRUE(got->renew());
}

// Its lease counts on from the lock's last command.
TYPED_TEST_P(SqlClockTest, BackALockThatNobodyRenewsIsFreeAfterItsLease) {
  Lease lease = hold_for(*this->one_, "a", 1s);
  const Token token = lease.token();
  lease.detach();
  this->clock_.set(-100s);
  const auto set_back = base::BootClock::now();
  auto next = this->two_->mutex("a").acquire({.wait = kLong, .ttl = 1s});
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_LT(base::BootClock::now() - set_back, 1s + kBusyMachine);
  EXPECT_GT(next->token(), token);
}

REGISTER_TYPED_TEST_SUITE_P(
    SqlServerTest, CertificatesAreChecked, AServerWithoutTlsIsNotUsedWithoutIt,
    AnotherServerAtThePortIsAnErrorInTime, AHolderIsToldOfItsLossWhileTheServerIsPaused,
    AHolderThatIsCutOffIsToldBeforeAnotherHolds, AReleaseThatArrivesWhenAnotherHoldsFreesNothing,
    AnAnswerThatBreaksOffIsLookedUp, WhenTheHolderIsKilledTenWaitersFollowInOrder,
    ThirtyTwoProcessesOnOneNameSeeNoError, AJumpOfTheClientsClockChangesNothing);
REGISTER_TYPED_TEST_SUITE_P(SqlClockTest, AheadTwoBelieveTheyHoldAndTheFirstIsToldWhenItRenews,
                            BackTheHolderGoesOnAndTheWaiterFollows,
                            BackALockThatNobodyRenewsIsFreeAfterItsLease);

}  // namespace holdfast::faults
