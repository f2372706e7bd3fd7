// TLS at a server in this process, by the real client.
#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/mutex.h"
#include "src/server/access/server_tls.h"
#include "src/server/testing/access_rig.h"
#include "src/server/testing/plain_client.h"
#include "src/server/testing/stand_in.h"
#include "tests/support/eventually.h"
#include "tests/support/tls_files.h"

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;
using support::eventually;
using testing::AccessTest;
using testing::request;
using testing::Socket;

class TlsTest : public AccessTest {
 protected:
  void SetUp() override {
    options_.tls_cert = support::tls_files().server.certificate;
    options_.tls_key = support::tls_files().server.key;
  }
  static std::string trust() { return "?tls_ca=" + support::tls_files().ca; }
};

TEST_F(TlsTest, AClientTakesALockOverTls) {
  start("app @ acquire:*\n");
  EXPECT_TRUE(server_->url().starts_with("holdfasts://"));
  auto client = connect("app", trust());
  ASSERT_TRUE(client) << client.error().message();
  auto lease = client->mutex("a").acquire({.wait = 10s});
  ASSERT_TRUE(lease) << lease.error().message();
  // More than one record of TLS, in both directions.
  std::vector<Lease> many;
  for (int i = 0; i < 300; ++i) {
    auto next = client->mutex("many/" + std::to_string(i)).acquire({.wait = 10s});
    ASSERT_TRUE(next);
    many.push_back(*std::move(next));
  }
  EXPECT_EQ(client->list("many/", 1'000)->size(), 300U);
  auto other = connect("app", trust());
  ASSERT_TRUE(other);
  auto waits = std::async(std::launch::async,
                          [&] { return other->mutex("a").acquire({.wait = 20s}).has_value(); });
  EXPECT_TRUE(lease->release());
  EXPECT_TRUE(waits.get());
}

TEST_F(TlsTest, AClientThatDoesNotTrustTheServerSaysNothingToIt) {
  start("app @ acquire:*\n");
  const std::string foreign = "?tls_ca=" + support::tls_files().foreign_ca;
  for (const std::string& more : {foreign, trust() + "&tls_name=elsewhere.invalid"}) {
    const auto client = connect("app", more);
    ASSERT_FALSE(client);
    EXPECT_EQ(client.error().code(), Errc::kPermissionDenied);
    EXPECT_NE(client.error().message().find("certificate"), std::string::npos)
        << client.error().message();
  }
}

TEST_F(TlsTest, PlainTextAtATlsPortAndTheReverseAreToldApart) {
  start("app @ acquire:*\n");
  const Socket plain(server_->address());
  EXPECT_TRUE(plain.ask(request({"PING"})).starts_with("-ERR this port speaks TLS"));
  const Server without = testing::start();
  const auto client = Client::connect("holdfasts://" + without.address() + trust());
  ASSERT_FALSE(client);
  EXPECT_NE(client.error().message().find("does not speak TLS"), std::string::npos)
      << client.error().message();
}

TEST_F(TlsTest, PlainHttpAtTheHttpsPortIsAnsweredInPlainText) {
  options_.http = "127.0.0.1:0";
  start("app @ acquire:*\n");
  const std::string head = "GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n";
  for (const std::string& more : {std::string(), "Cookie: " + std::string(6'000, 'x') + "\r\n"}) {
    const Socket plain(server_->http_address());
    ASSERT_TRUE(plain.send(head + more + "\r\n"));
    std::string all;
    for (std::string got = plain.receive(); !got.empty(); got = plain.receive()) all += got;
    EXPECT_TRUE(all.starts_with("HTTP/1.1 400 ")) << all;
    EXPECT_NE(all.find("begin the URL with https://"), std::string::npos) << all;
  }
}

TEST_F(TlsTest, HalfHandshakesEndInTimeAndDisturbNobody) {
  FrontLimits limits;
  limits.gate.handshake = 200ms;
  limits.strangers_of_address = 64;
  start("app @ acquire:*\n", limits);
  auto client = connect("app", trust());
  ASSERT_TRUE(client);
  auto lease = client->mutex("a").acquire({.wait = 10s, .ttl = 5s});
  ASSERT_TRUE(lease) << lease.error().message();
  ASSERT_TRUE(lease->renew()) << "all its connections are there";
  std::vector<std::unique_ptr<Socket>> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(std::make_unique<Socket>(server_->address()));
    static_cast<void>(silent.back()->send("\x16\x03\x01"));
  }
  EXPECT_TRUE(lease->renew());
  EXPECT_TRUE(client->mutex("b").acquire({.wait = 10s}));
  for (const auto& each : silent) EXPECT_EQ(each->receive(), "");
  EXPECT_TRUE(eventually([&] { return connect("app", trust()).has_value(); }));
}

TEST_F(TlsTest, ANewCertificateIsForNewConnections) {
  start("app @ acquire:*\n");
  const std::string cert = folder_.file("cert");
  ASSERT_TRUE(connect("app", trust()));
  server_.reset();
  // Files whose content is exchanged, as renewals of certificates do.
  const auto put = [&](const support::KeyPair& pair) {
    std::ofstream both(cert);
    both << std::ifstream(pair.certificate).rdbuf() << std::ifstream(pair.key).rdbuf();
  };
  put(support::tls_files().server);
  options_.tls_cert = cert;
  options_.tls_key.clear();
  start("app @ acquire:*\n");
  ASSERT_TRUE(connect("app", trust()));
  put(support::tls_files().foreign_server);
  ASSERT_TRUE(server_->reload());
  EXPECT_FALSE(connect("app", trust()));
  EXPECT_TRUE(connect("app", "?tls_ca=" + support::tls_files().foreign_ca));
  std::ofstream(cert) << "no certificate";
  const auto bad = server_->reload();
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message().find("--tls-cert '" + cert), std::string::npos)
      << bad.error().message();
  EXPECT_TRUE(connect("app", "?tls_ca=" + support::tls_files().foreign_ca));
}

TEST_F(TlsTest, BadFilesAreNamed) {
  const auto refused = [&](const std::string& cert, const std::string& key) {
    options_.tls_cert = cert;
    options_.tls_key = key;
    const auto server = Server::start(options_);
    return server ? std::string("it starts") : server.error().message();
  };
  const auto& files = support::tls_files();
  EXPECT_NE(refused("/nowhere", files.server.key).find("--tls-cert '/nowhere'"), std::string::npos);
  EXPECT_NE(refused(files.server.certificate, files.client.key).find("--tls-key"),
            std::string::npos);
  EXPECT_NE(refused(files.server.certificate, "").find("--tls-key"), std::string::npos);
  EXPECT_NE(refused("", files.server.key).find("--tls-cert FILE"), std::string::npos);
  options_.users = "/nowhere";
  EXPECT_NE(refused(files.server.certificate, files.server.key).find("users file '/nowhere'"),
            std::string::npos);
}

// The test's own connection is older than the certificate, so it can speak plain text.
TEST_F(TlsTest, AServerThatForwardsChecksTheLeadersCertificate) {
  start("app @ acquire:*\n");
  const auto& files = support::tls_files();
  FrontDoor door;
  door.users = *Users::read(users_);
  for (const auto& [trusted, leader_is_trusted] :
       {std::pair{files.ca, true}, {files.foreign_ca, false}}) {
    testing::StandIn stand_in(server_->address(), door);
    const Socket socket(stand_in.address());
    ASSERT_EQ(socket.ask(request({"AUTH", "app", "secret"})), "+OK\r\n");
    FrontDoor with_tls = door;
    with_tls.tls = *make_server_tls(options_.tls_cert, options_.tls_key, trusted);
    stand_in.guard(with_tls);
    const std::string name = leader_is_trusted ? "a" : "b";
    const std::string got = socket.ask(request({"SET", name, "me", "NX", "PX", "60000"}));
    if (leader_is_trusted) {
      EXPECT_EQ(got, "+OK\r\n");
      EXPECT_EQ(socket.ask(request({"GET", "a"})), "$2\r\nme\r\n");
    } else {
      EXPECT_NE(got.find("-STANDBY"), std::string::npos) << got;
      EXPECT_NE(got.find("--tls-ca"), std::string::npos) << got;
    }
  }
}

TEST_F(TlsTest, BeyondLoopbackAServerNeedsUsersAndTls) {
  const auto refused = [](ServerOptions options) {
    options.listen = "0.0.0.0:0";
    const auto server = Server::start(options);
    return server ? std::string("it starts") : server.error().message();
  };
  ServerOptions open{.journal = "memory:"};
  EXPECT_NE(refused(open).find("--users FILE"), std::string::npos);
  open.plaintext = true;
  EXPECT_NE(refused(open).find("--users FILE"), std::string::npos);
  open.plaintext = false;
  open.tls_cert = options_.tls_cert;
  open.tls_key = options_.tls_key;
  EXPECT_NE(refused(open).find("--users FILE"), std::string::npos);
  write_users("app @ acquire:*\n");
  ServerOptions clear{.journal = "memory:", .users = users_};
  EXPECT_NE(refused(clear).find("--tls-cert FILE"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::server
