// Clients that mean no good, or are slow, at the HTTP port of a server in this process: others are
// served meanwhile, and nothing of theirs stays.
#include <array>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include "src/base/clock.h"
#include "src/server/testing/http_rig.h"
#include "tests/support/eventually.h"
#include "tests/support/tls_files.h"

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;
using base::BootClock;
using support::eventually;
using testing::Got;
using testing::json;
using testing::receive;
using testing::Socket;

const std::string kHost = " HTTP/1.1\r\nHost: localhost\r\n";
const std::string kHealth = "GET /healthz" + kHost + "\r\n";
const std::string kApp = "Authorization: Basic YXBwOnNlY3JldA==\r\n";
const std::string kUsersCall = "GET /v1/locks" + kHost + kApp + "\r\n";

class HostileHttpTest : public testing::HttpTest {
 protected:
  // One byte after the other, and each time somebody else is served. The time until it is closed.
  std::chrono::nanoseconds trickle(const std::string& begin) const {
    const Socket slow(address());
    EXPECT_TRUE(slow.send(begin));
    const auto began = BootClock::now();
    while (slow.silent() && BootClock::now() < began + 20s) {
      for (int i = 0; i < 16; ++i) EXPECT_EQ(get("/healthz").status, 200);
      if (!slow.send("a")) break;
    }
    while (!slow.receive().empty()) {
    }
    return BootClock::now() - began;
  }
  // As many as are let in from that address, silent.
  std::vector<std::unique_ptr<Socket>> occupy(const char* from, int count) const {
    std::vector<std::unique_ptr<Socket>> all;
    for (int i = 0; i < count; ++i) all.push_back(std::make_unique<Socket>(address(), from));
    return all;
  }
};

TEST_F(HostileHttpTest, AHeadThatComesByteByByteEndsInTime) {
  open({.request_time = 1s});
  EXPECT_LT(trickle("GET /healthz" + kHost + "A: "), 10s);
}

TEST_F(HostileHttpTest, ABodyThatComesByteByByteEndsInTime) {
  open({.request_time = 1s});
  const std::string head = "POST /v1/locks/a/acquire" + kHost;
  EXPECT_LT(trickle(head + "Content-Length: 16000\r\n\r\n"), 10s);
  EXPECT_LT(trickle(head + "Transfer-Encoding: chunked\r\n\r\n4000\r\n"), 10s);
}

// A stranger has less time than a user.
TEST_F(HostileHttpTest, BeforeTheLogInTheTimeIsShorter) {
  open({.first_time = 200ms}, "app @ acquire:*\n");
  const Socket user(address());
  ASSERT_TRUE(user.send(kUsersCall));
  EXPECT_EQ(receive(user).status, 200);
  const auto began = BootClock::now();
  const Socket silent(address());
  const Socket half(address());
  const Socket again(address());
  ASSERT_TRUE(half.send("GET /v1/locks" + kHost));
  ASSERT_TRUE(again.send(kHealth));
  EXPECT_EQ(receive(again).status, 200) << "which needs no log-in, and is none";
  for (const Socket* each : {&silent, &half, &again}) EXPECT_EQ(each->receive(), "");
  EXPECT_LT(BootClock::now() - began, 8s);
  ASSERT_TRUE(user.send(kUsersCall)) << "the user's connection is as it was";
  EXPECT_EQ(receive(user).status, 200);
}

TEST_F(HostileHttpTest, AnEndlessHeadIsRefusedBeforeTheLogIn) {
  open({}, "app @ acquire:*\n");
  const std::string much(64'000, 'a');
  const std::string post = "POST /v1/locks/a/acquire" + kHost;
  const std::string endless[] = {
      much,
      "GET /" + much,
      "GET /healthz" + kHost + "A: " + much,
      "GET /healthz" + kHost + std::string(32'000, '\r'),
      post + "Content-Length: 99999\r\n\r\n" + much,
      post + "Transfer-Encoding: chunked\r\n\r\nffffffff\r\n" + much,
  };
  for (const std::string& bytes : endless) {
    const Socket socket(address());
    static_cast<void>(socket.send(bytes));
    std::string all;
    for (std::string more = socket.receive(); !more.empty(); more = socket.receive()) all += more;
    // The rest that was sent may have cut the refusal off.
    EXPECT_TRUE(all.empty() || all.starts_with("HTTP/1.1 4")) << all.substr(0, 200);
  }
  EXPECT_EQ(get("/healthz").status, 200);
}

// A length of a chunk may be followed by words without a meaning, without end.
TEST_F(HostileHttpTest, AnEndlessExtensionOfAChunkEndsInTime) {
  open({.request_time = 1s});
  const Socket socket(address());
  ASSERT_TRUE(socket.send("POST /v1/locks/a/acquire" + kHost +
                          "Transfer-Encoding: chunked\r\n\r\n1;a=" + std::string(60'000, 'a')));
  EXPECT_EQ(get("/healthz").status, 200);
  while (!socket.receive().empty()) {
  }
}

TEST_F(HostileHttpTest, GarbageIsRefusedAndDisturbsNobody) {
  open({.request_time = 1s});
  const std::string post = "POST /v1/locks/a/acquire" + kHost +
                           "Content-Type: application/json\r\nHoldfast-Request: 1\r\n";
  std::vector<std::string> all = {
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
      "*1\r\n$4\r\nPING\r\n",
      "GET http://evil.example/healthz" + kHost + "Host: evil.example\r\n\r\n",
      "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
      "GET /healthz" + kHost + "A\r\n\r\n",
      "GET /healthz" + kHost + std::string("A: \0\r\n\r\n", 8),
      post + "Content-Length: -1\r\n\r\n",
      post + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
      post + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
      post + "Content-Length: 18446744073709551616\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
      // Its body must not be the next request.
      "GET /healthz" + kHost + "Transfer-Encoding: gzip\r\n\r\n" + post +
          "Content-Length: 16\r\n\r\n{\"ttl_ms\":60000}",
      post + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n",
  };
  std::minstd_rand dice(1);
  for (int i = 0; i < 100; ++i) {
    std::string bytes(1 + dice() % 3'000, '\0');
    for (char& each : bytes) each = static_cast<char>(dice());
    all.push_back(i % 2 == 0 ? bytes : "GET /healthz" + kHost + bytes + "\r\n\r\n");
  }
  std::vector<std::unique_ptr<Socket>> sockets;
  for (const std::string& bytes : all) {
    sockets.push_back(std::make_unique<Socket>(address()));
    static_cast<void>(sockets.back()->send(bytes));
    EXPECT_EQ(get("/healthz").status, 200);
    std::string answer;
    for (std::string more = sockets.back()->receive(); !more.empty();
         more = sockets.back()->receive()) {
      answer += more;
    }
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 4")) << bytes << '\n' << answer;
    sockets.pop_back();
  }
  EXPECT_EQ(get("/v1/locks").parsed()["locks"].size(), 0U);
}

// It asks for more and more, and takes nothing.
TEST_F(HostileHttpTest, AClientThatNeverReadsIsClosedAndOthersAreServed) {
  open({.connections_of_address = 16, .request_time = 3s});
  const std::string name(240, 'n');
  for (int i = 0; i < 100; ++i) {
    const std::string path = "/v1/locks/" + name + std::to_string(i) + "/acquire";
    ASSERT_EQ(post(path, {{"ttl_ms", 60000}, {"reason", std::string(250, 'r')}}).status, 200);
  }
  const std::string list = "GET /v1/locks" + kHost + "\r\n";
  std::vector<std::unique_ptr<Socket>> deaf = occupy("127.0.0.1", 2);
  for (const auto& each : deaf) {
    const int small = 1;
    ::setsockopt(each->fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    for (int i = 0; i < 200; ++i) {
      if (::send(each->fd(), list.data(), list.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) break;
    }
  }
  EXPECT_EQ(get("/v1/locks").parsed()["locks"].size(), 100U);
  // Each holds one of the connections until it is closed.
  const auto open_now = [&] {
    const std::string text = get("/metrics").body;
    const std::string key = "\nholdfast_server_http_connections ";
    const std::size_t at = text.find(key);
    // An answer that a busy host does not give in time is asked for again.
    return at == std::string::npos ? -1 : std::stoi(text.substr(at + key.size()));
  };
  EXPECT_TRUE(eventually([&] { return open_now() == 1; })) << open_now();
  for (const auto& each : deaf) {
    while (!each->receive().empty()) {
    }
  }
}

TEST_F(HostileHttpTest, StrangersOfOtherAddressesKeepNoUserOut) {
  open({.connections = 8, .connections_of_address = 6, .first_time = 60s}, "app @ acquire:*\n");
  const Socket user(address());
  ASSERT_TRUE(user.send(kUsersCall));
  EXPECT_EQ(receive(user).status, 200);
  const auto one = occupy("127.0.0.2", 6);
  const auto two = occupy("127.0.0.3", 6);
  const auto health = Socket(address(), "127.0.0.4").ask(kHealth);
  EXPECT_TRUE(health.starts_with("HTTP/1.1 200")) << health;
  EXPECT_EQ(one.front()->receive(), "") << "the oldest stranger made room";
  ASSERT_TRUE(user.send(kUsersCall)) << "nobody who has logged in does";
  EXPECT_EQ(receive(user).status, 200);
  const Socket second(address(), "127.0.0.5");
  ASSERT_TRUE(second.send(kUsersCall));
  EXPECT_EQ(receive(second).status, 200);
}

// Behind one address may be many hosts.
TEST_F(HostileHttpTest, StrangersOfTheSameAddressKeepNoUserOut) {
  open({.connections_of_address = 4, .first_time = 60s}, "app @ acquire:*\n");
  std::vector<std::unique_ptr<Socket>> users;
  for (int i = 0; i < 4; ++i) {
    const auto silent = occupy("127.0.0.1", 8);
    users.push_back(std::make_unique<Socket>(address()));
    ASSERT_TRUE(users.back()->send(kUsersCall));
    EXPECT_EQ(receive(*users.back()).status, 200) << i;
  }
  EXPECT_EQ(Socket(address()).receive(), "") << "users' connections have their limit";
  for (const auto& each : users) {
    ASSERT_TRUE(each->send(kUsersCall));
    EXPECT_EQ(receive(*each).status, 200);
  }
}

// --- TLS.

// A client that does the handshake as far as it is told to.
class TlsClient {
 public:
  explicit TlsClient(const std::string& address) : socket_(address) {
    SSL_set_fd(tls_.get(), socket_.fd());
  }
  bool shake_hands() { return SSL_connect(tls_.get()) == 1; }
  std::string ask(const std::string& bytes) {
    if (SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size())) <= 0) return {};
    return receive();
  }
  // Empty: the connection has ended.
  std::string receive() {
    std::array<char, 4'096> into{};
    const int got = SSL_read(tls_.get(), into.data(), static_cast<int>(into.size()));
    return got > 0 ? std::string(into.data(), static_cast<std::size_t>(got)) : std::string();
  }

 private:
  using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
  using Session = std::unique_ptr<SSL, decltype(&SSL_free)>;

  Socket socket_;
  Context context_{SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
  Session tls_{SSL_new(context_.get()), SSL_free};
};

class HostileHttpsTest : public HostileHttpTest {
 protected:
  void SetUp() override {
    options_.tls_cert = support::tls_files().server.certificate;
    options_.tls_key = support::tls_files().server.key;
  }
};

TEST_F(HostileHttpsTest, HalfHandshakesEndInTimeAndOthersAreServed) {
  HttpLimits limits{.connections_of_address = 64};
  limits.gate.handshake = 300ms;
  open(limits, "app @ acquire:*\n");
  TlsClient user(address());
  ASSERT_TRUE(user.shake_hands());
  EXPECT_TRUE(user.ask(kUsersCall).starts_with("HTTP/1.1 200"));
  const auto half = occupy("127.0.0.2", 200);
  for (std::size_t i = 0; i < half.size(); ++i) {
    // Nothing at all, the begin of a record, plain text.
    const char* words[] = {"", "\x16\x03\x01", "GET / HTTP/1.1\r\n\r\n"};
    static_cast<void>(half[i]->send(words[i % 3]));
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(user.ask(kUsersCall).starts_with("HTTP/1.1 200"));
    TlsClient another(address());
    ASSERT_TRUE(another.shake_hands());
    EXPECT_TRUE(another.ask(kUsersCall).starts_with("HTTP/1.1 200"));
  }
  for (const auto& each : half) {
    while (!each->receive().empty()) {  // It may be told why.
    }
  }
}

TEST_F(HostileHttpsTest, ASilentOrHalfRequestBehindTheHandshakeEndsInTime) {
  open({.first_time = 200ms}, "app @ acquire:*\n");
  TlsClient silent(address());
  ASSERT_TRUE(silent.shake_hands());
  EXPECT_EQ(silent.receive(), "");
  TlsClient half(address());
  ASSERT_TRUE(half.shake_hands());
  EXPECT_EQ(half.ask("GET /healthz" + kHost), "");
  TlsClient whole(address());
  ASSERT_TRUE(whole.shake_hands());
  EXPECT_TRUE(whole.ask(kHealth).starts_with("HTTP/1.1 200"));
}

}  // namespace
}  // namespace holdfast::server
