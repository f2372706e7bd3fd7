#include "src/stores/etcd/transport/rpc.h"

#include <cerrno>
#include <future>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <gtest/gtest.h>

#include "src/stores/etcd/transport/http2_test_server.h"
#include "tests/support/no_descriptors.h"

namespace holdfast::stores::etcd {
namespace {

using namespace std::chrono_literals;
using support::NoDescriptors;

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
  void start(const std::vector<const Http2TestServer*>& servers,
             std::chrono::milliseconds connect_timeout = 3s) {
    EtcdAddress address;
    address.connect_timeout = connect_timeout;
    for (const Http2TestServer* each : servers) {
      address.servers.push_back({"127.0.0.1", each->port()});
    }
    rpc = Rpc::make(address).value();
  }
  using Answer = Result<wire::RangeResponse>;
  std::future<Answer> ask(bool reads_only = false) {
    const auto answer = std::make_shared<std::promise<Answer>>();
    rpc->call(wire::RangeRequest(), {base::BootClock::now() + 20s, reads_only},
              Rpc::Then<wire::RangeResponse>(
                  [answer](Answer got) { answer->set_value(std::move(got)); }));
    return answer->get_future();
  }
  // One call is at the first server, and the second waits for its end.
  void ask_twice() {
    one.greet({{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1}});
    first = ask();
    second = ask();
    ASSERT_TRUE(asked(one));
  }
  bool asked(Http2TestServer& server) {
    return await([&] { return server.streams[1].ended; });
  }
  // Runs the servers until it is so.
  template <typename Condition>
  bool await(Condition so, std::chrono::milliseconds most = 20s) {
    const auto until = base::BootClock::now() + most;
    while (!so() && base::BootClock::now() < until) io.run_one_for(10ms);
    return so();
  }
  bool succeeds(std::future<Answer>& answer) {
    return await([&] { return answer.wait_for(0s) == std::future_status::ready; }) && answer.get();
  }

  asio::io_context io{1};
  Http2TestServer one{io};
  Http2TestServer two{io};
  // The first call stays at `one`, which leaves.
  void expect_second_moves_to(Http2TestServer& next) {
    next.greet();
    one.leave(1);
    ASSERT_TRUE(asked(next));
    next.answer(1, "");
    EXPECT_TRUE(succeeds(second));
    one.answer(1, "");
    EXPECT_TRUE(succeeds(first));
  }

  std::future<Answer> first;
  std::future<Answer> second;
  std::unique_ptr<Rpc> rpc;
};

// A read's attempt has less time than a connection.
TEST_F(PlayedEtcdTest, AConnectionInTheMakingHasConnectTimeout) {
  start({&one, &two}, 8s);
  first = ask(/*reads_only=*/true);
  ASSERT_FALSE(await([&] { return one.gone; }, 2s));
  one.greet();
  ASSERT_TRUE(asked(one));
  one.answer(1, "");
  EXPECT_TRUE(succeeds(first));
}

TEST_F(PlayedEtcdTest, ACallThatWaitsAtAServerThatLeavesMovesToTheNext) {
  start({&one, &two});
  ask_twice();
  expect_second_moves_to(two);
}

TEST_F(PlayedEtcdTest, ACallThatWaitsAtTheOnlyServerMovesToItsNextConnection) {
  start({&one});
  ask_twice();
  Http2TestServer next(one);
  expect_second_moves_to(next);
}

}  // namespace
}  // namespace holdfast::stores::etcd
