#include "src/stores/etcd/transport/rpc.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <asio/io_context.hpp>
#include <gtest/gtest.h>

#include "src/stores/etcd/transport/http2_test_server.h"

namespace holdfast::stores::etcd {
namespace {

using namespace std::chrono_literals;

// While it lives the process gets no further descriptor, but for the spare ones.
class NoDescriptors {
 public:
  explicit NoDescriptors(int spare = 0) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::dup(0);
    ::close(next);
    const rlimit none{static_cast<rlim_t>(next + spare), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(EtcdRpcTest, WithoutDescriptorsForItsTimersItsLoopEnds) {
  EtcdAddress address;
  address.servers = {{"127.0.0.1", 1}};
  for (int spare = 0; spare < 8; ++spare) {
    const NoDescriptors none(spare);
    try {
      ASSERT_TRUE(Rpc::make(address));
      EXPECT_GT(spare, 0);
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code().value(), EMFILE) << error.what();
    }
  }
}

TEST(EtcdRpcTest, AProcessWithoutDescriptorsIsToldSo) {
  EtcdAddress address;
  address.servers = {{"127.0.0.1", 1}};
  const auto rpc = Rpc::make(address);
  ASSERT_TRUE(rpc);
  const auto ask = [&rpc] {
    std::promise<Result<wire::RangeResponse>> answer;
    (*rpc)->call(wire::RangeRequest(), {.deadline = base::BootClock::now() + 20s},
                 Rpc::Then<wire::RangeResponse>(
                     [&](Result<wire::RangeResponse> got) { answer.set_value(std::move(got)); }));
    return answer.get_future().get();
  };
  {
    const NoDescriptors none;
    const auto refused = ask();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Errc::kUnavailable);
    EXPECT_NE(refused.error().message().find("Too many open files"), std::string::npos)
        << refused.error().message();
  }
  (*rpc)->close();
}

class PlayedEtcdTest : public testing::Test {
 protected:
  ~PlayedEtcdTest() override {
    if (rpc != nullptr) rpc->close();
  }
  void start(std::chrono::milliseconds connect_timeout) {
    EtcdAddress address;
    address.connect_timeout = connect_timeout;
    for (const Http2TestServer* each : {&one, &two}) {
      address.servers.push_back({"127.0.0.1", each->port()});
    }
    rpc = Rpc::make(address).value();
  }
  using Answer = Result<wire::RangeResponse>;
  std::future<Answer> read(std::optional<std::size_t> server = std::nullopt) {
    const auto answer = std::make_shared<std::promise<Answer>>();
    rpc->call(wire::RangeRequest(), {base::BootClock::now() + 10s, /*reads_only=*/true, server},
              Rpc::Then<wire::RangeResponse>(
                  [answer](Answer got) { answer->set_value(std::move(got)); }));
    return answer->get_future();
  }
  // Runs the servers until it is so.
  template <typename Condition>
  bool await(Condition so, std::chrono::milliseconds most = 20s) {
    const auto until = base::BootClock::now() + most;
    while (!so() && base::BootClock::now() < until) io.run_one_for(10ms);
    return so();
  }
  bool done(const std::future<Answer>& answer) {
    return await([&] { return answer.wait_for(0s) == std::future_status::ready; });
  }

  asio::io_context io{1};
  Http2TestServer one{io};
  Http2TestServer two{io};
  std::unique_ptr<Rpc> rpc;
};

// A read's attempt has less time than a connection.
TEST_F(PlayedEtcdTest, AConnectionInTheMakingHasConnectTimeout) {
  start(8s);
  auto answer = read();
  ASSERT_FALSE(await([&] { return one.gone; }, 2s));
  one.greet();
  ASSERT_TRUE(await([&] { return one.streams[1].ended; }));
  one.answer(1, "");
  ASSERT_TRUE(done(answer));
  const auto got = answer.get();
  EXPECT_TRUE(got) << got.error().message();
}

}  // namespace
}  // namespace holdfast::stores::etcd
