// TLS and users at Sentinels and servers: each has its own, and nothing falls back to less.
#include <fstream>
#include <sstream>

#include "tests/faults/redis_harness.h"
#include "tests/support/eventually.h"
#include "tests/support/redis_sentinels.h"

namespace holdfast::faults {
namespace {

using support::RedisSentinels;
using support::tls_files;

// The user of a page's line "ACL SETUSER ...", for a configuration file.
std::string documented_user(const char* page) {
  std::ifstream text(page);
  for (std::string line; std::getline(text, line);) {
    const std::string start = "ACL SETUSER ";
    if (line.rfind(start, 0) == 0) return line.substr(start.size());
  }
  throw std::runtime_error(std::string("no line with permissions in ") + page);
}

// The user of the servers is "holdfast" with "SECRET", that of the Sentinels "watcher" with
// "OTHER". Each has the permissions of the pages.
class RedisSentinelAccessTest : public RedisFaults {
 protected:
  void SetUp() override {
    RedisFaults::SetUp();
    if (IsSkipped() || redis_) return;
    std::string watcher = documented_user(HOLDFAST_TOPOLOGIES_PAGE);
    watcher.replace(0, std::string("holdfast on >SECRET").size(), "watcher on >OTHER");
    redis_.emplace(support::SentinelsOptions{
        .replicas = 1,
        .server = {.users = {"default off",
                             documented_user(HOLDFAST_REDIS_PAGE) + " +role +wait"}},
        .tls = true,
        .users = {"default off", watcher}});
  }
  static void TearDownTestSuite() { redis_.reset(); }

  struct Login {
    std::string scheme = "rediss+sentinel";
    std::string password = "SECRET";
    std::string hosts = redis_->hosts();
    std::string ca = tls_files().ca;
    std::string sentinels = "&sentinel_user=watcher&sentinel_password=OTHER";
  };
  static std::string url(const Login& login) {
    return login.scheme + "://holdfast:" + login.password + "@" + login.hosts +
           "?primary=mymaster&connect_timeout=2s" +
           (login.ca.empty() ? "" : "&tls_ca=" + login.ca) + login.sentinels;
  }
  static std::string url() { return url(Login()); }

  static Error refusal(const std::string& url) {
    auto client = Client::connect(url);
    if (client) throw std::runtime_error("it came in");
    for (const char* secret : {"SeCrEt", "SECRET", "OTHER"}) {
      EXPECT_EQ(client.error().message().find(secret), std::string::npos)
          << client.error().message();
    }
    return client.error();
  }
  static void expect_refused(const Login& login, Errc code, const std::vector<std::string>& words) {
    const Error refused = refusal(url(login));
    EXPECT_EQ(refused.code(), code) << refused.message();
    for (const std::string& word : words) {
      EXPECT_NE(refused.message().find(word), std::string::npos) << refused.message();
    }
  }

  static inline std::optional<RedisSentinels> redis_;
};

TEST_F(RedisSentinelAccessTest, AWrongPasswordIsToldAsThatOfServersOrSentinels) {
  expect_refused({.password = "SeCrEt"}, Errc::kPermissionDenied,
                 {"cannot log in", "correct HOLDFAST_REDIS_PASSWORD"});
  expect_refused({.sentinels = "&sentinel_user=watcher&sentinel_password=SeCrEt"},
                 Errc::kPermissionDenied,
                 {"the Sentinel 127.0.0.1:", "cannot log in", "sentinel_password_file="});
  expect_refused({.sentinels = ""}, Errc::kPermissionDenied,
                 {"the Sentinel 127.0.0.1:", "wants a password", "sentinel_password_file="});
}

TEST_F(RedisSentinelAccessTest, AUserWhoMayNotAskIsToldWhichPageHelps) {
  for (std::size_t i = 0; i < 3; ++i) {
    const Reply made = redis_->sentinel(i).command(
        {"ACL", "SETUSER", "blind", "on", ">OTHER", "nocommands", "+ping"});
    ASSERT_FALSE(made.is_error()) << made;
  }
  expect_refused({.sentinels = "&sentinel_user=blind&sentinel_password=OTHER"},
                 Errc::kPermissionDenied,
                 {"may not ask who is the primary", "redis-topologies.md"});
}

TEST_F(RedisSentinelAccessTest, AServerThatAnotherAuthoritySignedIsNotSpokenTo) {
  const std::string foreign = tls_files().foreign_ca;
  const std::string good = "&sentinel_tls_ca=" + tls_files().ca;
  Login login{.ca = foreign};
  login.sentinels += good;
  expect_refused(login, Errc::kPermissionDenied,
                 {"rediss+sentinel://", "the server's certificate does not pass", "tls_ca"});
  login = {};
  login.sentinels += "&sentinel_tls_ca=" + foreign;
  expect_refused(login, Errc::kPermissionDenied,
                 {"the Sentinel 127.0.0.1:", "(TLS)", "certificate does not pass",
                  "begin with sentinel_"});
}

// The plain ports are open, and the user exists there, too.
TEST_F(RedisSentinelAccessTest, WhereTlsIsAskedNothingFallsBackToAPlainConnection) {
  expect_refused({.hosts = redis_->hosts(false)}, Errc::kUnavailable,
                 {"the Sentinel 127.0.0.1:", "(TLS)", "speak TLS"});
  // In the other direction the Sentinel closes the connection.
  expect_refused({.scheme = "redis+sentinel", .ca = ""}, Errc::kUnavailable,
                 {"the Sentinel 127.0.0.1:", "sentinel_tls=yes"});
  // Plain Sentinels are asked only where the URL says so, and the servers still speak TLS.
  Login mixed{.hosts = redis_->hosts(false)};
  mixed.sentinels += "&sentinel_tls=no";
  Peer one(url(mixed));
  EXPECT_TRUE(one.hold("a", 10s).release());
  // Sentinels without TLS name a plain server: it is refused.
  RedisSentinels plain({.replicas = 0, .sentinels = 1, .quorum = 1});
  const Error refused =
      refusal("rediss+sentinel://" + plain.hosts() +
              "?primary=mymaster&connect_timeout=2s&sentinel_tls=no&tls_ca=" + tls_files().ca);
  EXPECT_EQ(refused.code(), Errc::kUnavailable) << refused.message();
  EXPECT_NE(refused.message().find("TLS"), std::string::npos) << refused.message();
}

TEST_F(RedisSentinelAccessTest, TheDocumentedUsersDoTheMainJobOverTlsAndFollowAFailOver) {
  Peer one(url());
  Peer other(url() + "&replicas=1");
  Lease lease = one.hold("a", 30s);
  Waiter waiter(other, "a", 300s);  // After the switch nobody confirms a renewal of it.
  waiter.await_queued();
  EXPECT_TRUE(lease.renew());
  EXPECT_TRUE(other.hold("b", 10s).release());
  const auto report = one.client().doctor();
  ASSERT_TRUE(report) << report.error().message();
  for (const Finding& each : report->findings) {
    EXPECT_NE(each.severity, Severity::kProblem) << each.topic << ": " << each.what;
    EXPECT_NE(each.topic, "transport") << each.what;
  }
  RedisSentinels::await_replicas(redis_->primary(), 1);
  const std::size_t before = redis_->primary_index();
  // No replica is left to confirm, so this waiter could not be granted.
  EXPECT_TRUE(lease.release());
  Lease next = waiter.grant();
  RedisSentinels::await_replicas(redis_->primary(), 1);
  redis_->server(before).kill9();
  redis_->await_switch(before);
  Lease third = [&] {
    std::optional<Lease> got;
    EXPECT_TRUE(support::eventually([&] {
      auto tried = one.client().mutex("c").try_acquire();
      if (tried && *tried) got = std::move(**tried);
      return got.has_value();
    }));
    return std::move(got).value();
  }();
  EXPECT_TRUE(third.release());
  EXPECT_TRUE(next.held());
  const Reply log = redis_->primary().must({"ACL", "LOG"});
  EXPECT_TRUE(log.elements.empty()) << log;
}

}  // namespace
}  // namespace holdfast::faults
