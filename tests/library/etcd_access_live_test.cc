// Log-in, rights, TLS, and what the doctor says, on a real etcd.
#include <algorithm>
#include <optional>
#include <string>

#include "tests/library/fixture.h"
#include "tests/support/etcd_server.h"

namespace holdfast::testing {
namespace {

using support::EtcdCluster;
using support::EtcdOptions;

std::optional<Finding> finding(const Client& client, const std::string& topic,
                               const std::string& words) {
  const auto report = client.doctor();
  if (!report) {
    ADD_FAILURE() << report.error().message();
    return std::nullopt;
  }
  for (const Finding& each : report->findings) {
    if (each.topic == topic && each.what.find(words) != std::string::npos) return each;
  }
  return std::nullopt;
}

class EtcdRightsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    etcd_ = std::make_unique<EtcdCluster>(EtcdOptions{.auth = true});
    add_user("alice", "readwrite", "hf1/");
    add_user("reader", "read", "hf1/");
    add_user("stranger", "readwrite", "elsewhere/");
  }
  static void TearDownTestSuite() { etcd_.reset(); }

  static void add_user(const std::string& name, const std::string& right,
                       const std::string& prefix) {
    etcd_->etcdctl({"role", "add", name});
    etcd_->etcdctl({"role", "grant-permission", name, right, prefix, "--prefix=true"});
    etcd_->etcdctl({"user", "add", name + ":the-secret"});
    etcd_->etcdctl({"user", "grant-role", name, name});
  }
  static std::string url(const std::string& login) {
    return etcd_->url("?session=2s", login.empty() ? "" : login + "@");
  }

  static inline std::unique_ptr<EtcdCluster> etcd_;
};

TEST_F(EtcdRightsTest, TheRightsOfThePageSuffice) {
  Client client = connect_or_die(url("alice:the-secret"));
  auto lease = client.mutex("orders/42").acquire();
  ASSERT_TRUE(lease) << lease.error().message();
  auto waiting = std::async(std::launch::async, [&] {
    return connect_or_die(url("alice:the-secret")).mutex("orders/42").acquire({.wait = 60s});
  });
  EXPECT_EQ(client.list()->size(), 1U);
  ASSERT_TRUE(lease->release());
  EXPECT_TRUE(waiting.get());
  EXPECT_EQ(finding(client, "permissions", "")->severity, Severity::kOk);
}

TEST_F(EtcdRightsTest, AWrongPasswordIsSaidSoAndNotShown) {
  const auto client = Client::connect(url("alice:wrong-secret"));
  ASSERT_TRUE(fails_with(client, Errc::kPermissionDenied));
  EXPECT_NE(client.error().message().find("user and password"), std::string::npos)
      << client.error().message();
  EXPECT_EQ(client.error().message().find("wrong-secret"), std::string::npos);
}

TEST_F(EtcdRightsTest, NoUserIsRefused) {
  EXPECT_TRUE(fails_with(Client::connect(url("")), Errc::kPermissionDenied));
}

TEST_F(EtcdRightsTest, AMissingRightIsSaidSo) {
  EXPECT_TRUE(fails_with(Client::connect(url("stranger:the-secret")), Errc::kPermissionDenied));
  Client reader = connect_or_die(url("reader:the-secret"));
  const auto lease = reader.mutex("orders/42").acquire({.wait = 60s});
  ASSERT_TRUE(fails_with(lease, Errc::kPermissionDenied));
  EXPECT_NE(lease.error().message().find("docs/stores/etcd.md"), std::string::npos)
      << lease.error().message();
  EXPECT_EQ(finding(reader, "permissions", "")->severity, Severity::kProblem);
}

TEST(EtcdTlsTest, TheServerIsCheckedAndMayAskForACertificate) {
  EtcdCluster etcd({.tls = true, .tls_clients = true});
  const auto& files = support::tls_files();
  const std::string own = "&tls_cert=" + files.client.certificate + "&tls_key=" + files.client.key;
  Client client = connect_or_die(etcd.url("?tls_ca=" + files.ca + own));
  EXPECT_TRUE(client.mutex("a").acquire());
  const auto foreign = Client::connect(etcd.url("?tls_ca=" + files.foreign_ca + own));
  ASSERT_FALSE(foreign);
  EXPECT_NE(foreign.error().message().find("TLS"), std::string::npos) << foreign.error().message();
  EXPECT_FALSE(Client::connect(etcd.url("?connect_timeout=1s&tls_ca=" + files.ca)));
  const auto elsewhere =
      Client::connect(etcd.url("?tls_name=elsewhere.invalid&tls_ca=" + files.ca + own));
  ASSERT_FALSE(elsewhere);
  EXPECT_NE(elsewhere.error().message().find("hostname mismatch"), std::string::npos)
      << elsewhere.error().message();
}

TEST(EtcdTlsTest, AFileThatCannotBeUsedIsNamed) {
  const auto& files = support::tls_files();
  const auto refusal = [](const std::string& query) {
    const auto client = Client::connect("etcds://127.0.0.1:1?connect_timeout=1s&" + query);
    EXPECT_TRUE(fails_with(client, Errc::kInvalidArgument));
    return client ? std::string() : client.error().message();
  };
  EXPECT_NE(refusal("tls_ca=/").find("cannot read '/'"), std::string::npos);
  EXPECT_NE(refusal("tls_ca=" + files.client.key).find("tls_ca"), std::string::npos);
  const std::string own = "tls_ca=" + files.ca + "&tls_cert=" + files.client.certificate;
  const std::string foreign = refusal(own + "&tls_key=" + files.server.key);
  EXPECT_NE(foreign.find("is not the key of the certificate"), std::string::npos) << foreign;
  const std::string no_key = refusal(own);  // The key is looked for beside the certificate.
  EXPECT_NE(no_key.find("has no private key"), std::string::npos) << no_key;
  const support::TempFolder folder("key");
  const std::string locked = folder.file("locked.key");
  support::run({"openssl", "pkcs8", "-topk8", "-in", files.client.key, "-out", locked, "-passout",
                "pass:secret"});
  EXPECT_NE(refusal(own + "&tls_key=" + locked).find("passphrase"), std::string::npos);
}

TEST(EtcdDoctorTest, VersionsWithKnownLeaseBugsAreNamed) {
  EtcdCluster etcd;
  Client client = connect_or_die(etcd.url());
  const std::string version = etcd.etcdctl({"version"});
  if (version.find("3.4.23") != std::string::npos) {
    const auto found = finding(client, "version", "#15247");
    ASSERT_TRUE(found);
    EXPECT_NE(found->advice.find("3.4.31"), std::string::npos) << found->advice;
  }
  EXPECT_EQ(finding(client, "members", "one")->severity, Severity::kOk);
  EXPECT_TRUE(client.doctor()->healthy());
}

TEST(EtcdDoctorTest, AMemberThatIsDownAndAUrlThatNamesOneAreWarnings) {
  EtcdCluster etcd({.members = 3});
  Client one = connect_or_die(etcd.url_of({0}, "?session=5s"));
  EXPECT_EQ(finding(one, "servers", "one of 3")->severity, Severity::kWarning);
  EXPECT_EQ(finding(one, "session", "5 s")->severity, Severity::kWarning);
  Client all = connect_or_die(etcd.url());
  const std::size_t down = (etcd.leader() + 1) % 3;
  etcd.kill9(down);
  const auto found = finding(all, "server etcd://127.0.0.1:" + std::to_string(etcd.port(down)), "");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->severity, Severity::kWarning);
}

TEST(EtcdConnectTest, AServerThatIsNotThereIsUnavailable) {
  const auto client = Client::connect("etcd://127.0.0.1:1?connect_timeout=1s");
  ASSERT_TRUE(fails_with(client, Errc::kUnavailable));
  EXPECT_NE(client.error().message().find("127.0.0.1:1"), std::string::npos);
}

TEST(EtcdConnectTest, AnUnknownOptionIsRefusedByName) {
  const auto client = Client::connect("etcd://127.0.0.1:1?colour=blue");
  ASSERT_TRUE(fails_with(client, Errc::kInvalidArgument));
  EXPECT_NE(client.error().message().find("colour"), std::string::npos);
}

// etcd keeps every name that was used until it is compacted, and looks at it in each listing.
TEST(EtcdNamesTest, AClientsContendersHaveTheSameNameAgain) {
  EtcdCluster etcd;
  auto client = Client::connect(etcd.url());
  ASSERT_TRUE(client);
  Mutex mutex = client->mutex("orders");
  std::string first;
  std::uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    auto lease = mutex.acquire({.wait = std::chrono::seconds(60)});
    ASSERT_TRUE(lease) << lease.error().message();
    EXPECT_GT(lease->token().counter, last);
    last = lease->token().counter;
    const std::string keys = etcd.etcdctl({"get", "hf1/", "--prefix", "--keys-only"});
    const std::size_t end = keys.find("-x\n");
    ASSERT_NE(end, std::string::npos) << keys;
    const std::string name = keys.substr(keys.rfind('\n', end) + 1, end - keys.rfind('\n', end));
    if (i == 0) first = name;
    EXPECT_EQ(name, first);
    ASSERT_TRUE(lease->release());
  }
}

}  // namespace
}  // namespace holdfast::testing
