// A waiter for the fate of a request whose answer was lost waits no longer than it has time, and
// has all of its time.
#include <gtest/gtest.h>

#include "src/stores/etcd/test_clerk.h"
#include "tests/support/etcd_server.h"
#include "tests/support/eventually.h"
#include "tests/support/fault_proxy.h"

namespace holdfast::stores::etcd {
namespace {

using support::EtcdCluster;
using support::eventually;
using support::Fault;
using support::FaultProxy;

class EtcdSettlingTest : public ::testing::Test {
 protected:
  // From here on no answer comes, and one was lost already.
  void lose_answers() {
    silence_ =
        proxy_.add({.kind = Fault::Kind::kBlackhole, .direction = support::Direction::kToClient});
    const auto entered = clerk_.enter({{"lost", 1}}, 500ms);
    ASSERT_FALSE(entered[0]);
    ASSERT_EQ(entered[0].error().code(), Errc::kOutcomeUnknown) << entered[0].error().message();
  }
  // Over connections that are new: the old ones have lost bytes.
  void answer_again() { proxy_.remove(silence_), proxy_.reset_all(); }

  std::string url(const std::string& session) const {
    return "etcd://127.0.0.1:" + std::to_string(proxy_.port()) + "?session=" + session;
  }
  std::string time_to_live(const std::string& lease) const {
    return etcd_.etcdctl({"lease", "timetolive", lease});
  }

  EtcdCluster etcd_;
  FaultProxy proxy_{{.server_port = etcd_.port()}};
  Clerk clerk_{url("60s")};
  int silence_ = 0;
};

// The servers would keep it, with all its contenders: somebody renews it in the client's place, as
// a new leader does.
TEST_F(EtcdSettlingTest, ASessionThatEndedWhileTheStoreWasAwayIsRevokedAfterwards) {
  Clerk clerk(url("2s"));
  const std::string lease = clerk.session();
  const support::ChildProcess renewing(
      {.arguments = etcd_.etcdctl_command({"lease", "keep-alive", lease})});
  proxy_.refuse(true), proxy_.reset_all();
  ASSERT_TRUE(clerk.wait_for_end());
  // Asked for behind the first revocation, which has failed when this has.
  Awaited<Listing> behind;
  clerk.list("a", BootClock::now() + 10s, behind);
  ASSERT_FALSE(behind.wait());
  ASSERT_NE(time_to_live(lease).find("granted with TTL"), std::string::npos);
  proxy_.refuse(false);
  EXPECT_TRUE(
      eventually([&] { return time_to_live(lease).find("expired") != std::string::npos; }, kSoon))
      << time_to_live(lease);
}

TEST_F(EtcdSettlingTest, WhoHasLittleTimeDoesNotWaitAsLongAsTheFirst) {
  lose_answers();
  Awaited<Listing> patient, hasty;
  const auto asked = BootClock::now();
  clerk_.list("a", asked + 25s, patient);
  clerk_.list("b", asked + 300ms, hasty);
  const auto told = hasty.wait();
  EXPECT_LT(BootClock::now() - asked, 10s);
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code(), Errc::kUnavailable) << told.error().message();
  answer_again();
  const auto listed = patient.wait();
  EXPECT_TRUE(listed) << listed.error().message();
}

TEST_F(EtcdSettlingTest, WhoHasMuchTimeOutlastsTheFirst) {
  lose_answers();
  Awaited<Listing> hasty, patient;
  const auto asked = BootClock::now();
  clerk_.list("a", asked + 300ms, hasty);
  clerk_.list("b", asked + 25s, patient);
  EXPECT_FALSE(hasty.wait());
  answer_again();
  const auto listed = patient.wait();
  EXPECT_TRUE(listed) << listed.error().message();
}

}  // namespace
}  // namespace holdfast::stores::etcd
