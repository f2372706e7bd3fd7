#include "src/stores/etcd/transport/byte_stream.h"

#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <gtest/gtest.h>

#include "tests/support/swallower.h"

namespace holdfast::stores::etcd {
namespace {

using asio::ip::tcp;
using base::BootClock;
using namespace std::chrono_literals;

// The addresses that a host name may have.
tcp::resolver::results_type at_ports(const std::vector<std::uint16_t>& ports) {
  std::vector<tcp::endpoint> endpoints;
  for (const std::uint16_t port : ports) {
    endpoints.emplace_back(asio::ip::address_v4::loopback(), port);
  }
  return tcp::resolver::results_type::create(endpoints.begin(), endpoints.end(), "localhost", "");
}

class ByteStreamTest : public testing::Test {
 protected:
  ~ByteStreamTest() override {
    stream->close();
    io.poll();
  }
  void connect(const std::vector<std::uint16_t>& ports, std::chrono::milliseconds time) {
    stream->connect({"localhost", 1}, at_ports(ports), BootClock::now() + time,
                    [this](const std::string& why) { ended = why; });
  }
  template <typename Condition>
  bool await(Condition so) {
    const auto until = BootClock::now() + 20s;
    while (!so() && BootClock::now() < until) io.run_one_for(100ms);
    return so();
  }
  tcp::acceptor listener() { return {io, {asio::ip::address_v4::loopback(), 0}}; }

  asio::io_context io{1};
  std::shared_ptr<ByteStream> stream = std::make_shared<ByteStream>(io, nullptr);
  std::optional<std::string> ended;
};

TEST_F(ByteStreamTest, AnAddressThatSwallowsAllLeavesTimeForTheOthers) {
  const support::Swallower one;
  const support::Swallower two;
  const tcp::acceptor good = listener();
  const auto begin = BootClock::now();
  connect({one.port(), two.port(), good.local_endpoint().port()}, 3s);
  ASSERT_TRUE(await([&] { return ended.has_value(); }));
  EXPECT_EQ(*ended, "");
  EXPECT_LT(BootClock::now() - begin, 3s);
  EXPECT_GE(BootClock::now() - begin, 2s);
}

// The handshake is part of the share.
TEST_F(ByteStreamTest, AnAddressThatIsSilentAboutTlsLeavesTimeForTheOthers) {
  const tcp::acceptor silent = listener();
  tcp::acceptor other = listener();
  tcp::socket accepted(io);
  bool reached = false;
  other.async_accept(accepted, [&](const std::error_code& error) { reached = !error; });
  EtcdAddress address;
  address.tls = true;
  stream = std::make_shared<ByteStream>(io, TlsSettings::make(address).value());
  const auto begin = BootClock::now();
  connect({silent.local_endpoint().port(), other.local_endpoint().port()}, 2s);
  ASSERT_TRUE(await([&] { return reached; }));
  EXPECT_GE(BootClock::now() - begin, 1s);
  EXPECT_FALSE(ended);
  accepted.close();
  ASSERT_TRUE(await([&] { return ended.has_value(); }));
  EXPECT_EQ(ended->find("TLS failed"), 0U) << *ended;
}

TEST_F(ByteStreamTest, OnceConnectedItStaysSo) {
  tcp::acceptor good = listener();
  const std::uint16_t port = good.local_endpoint().port();
  tcp::socket accepted(io);
  good.async_accept(accepted, [](const std::error_code&) {});
  connect({port, port}, 100ms);
  ASSERT_TRUE(await([&] { return ended.has_value(); }));
  EXPECT_EQ(*ended, "");
  std::optional<std::error_code> over;
  char byte = 0;
  stream->read(&byte, 1, [&](const std::error_code& error, std::size_t) { over = error; });
  io.run_for(200ms);
  EXPECT_FALSE(over);
}

}  // namespace
}  // namespace holdfast::stores::etcd
