// The calls of operators at a server in this process: who may, and what becomes of the server.
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "holdfast/stores.h"
#include "src/server/testing/access_rig.h"
#include "src/server/testing/plain_client.h"

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;
using testing::AccessTest;
using testing::kPatience;
using testing::request;
using testing::Socket;

const std::string kMembers = request({"HF1", "members", "0"});
const std::string kDrain = request({"HF1", "drain", "0"});

class OperatorCallsTest : public AccessTest {
 protected:
  void start_without_users() {
    auto made = Server::start(options_);
    ASSERT_TRUE(made) << made.error().message();
    server_.emplace(*std::move(made));
  }
};

TEST_F(OperatorCallsTest, AreForAdmins) {
  bool drained = false;
  options_.on_drain = [&] { drained = true; };
  start("app @ acquire:*\nops @ admin\n");
  const Socket stranger(server_->address());
  EXPECT_TRUE(stranger.ask(kMembers).starts_with("-NOAUTH "));
  EXPECT_TRUE(stranger.ask(kDrain).starts_with("-NOAUTH "));
  const auto app = as("app");
  EXPECT_EQ(app->ask(kMembers), "-NOPERM user 'app' is no admin\r\n");
  EXPECT_EQ(app->ask(kDrain), "-NOPERM user 'app' is no admin\r\n");
  EXPECT_FALSE(drained);
  const auto ops = as("ops");
  EXPECT_TRUE(ops->ask(kMembers).starts_with("*1\r\n*12\r\n"));
  EXPECT_EQ(ops->ask(kDrain), "+OK\r\n");
  EXPECT_TRUE(drained);
}

TEST_F(OperatorCallsTest, NeedTheirWordsAndNoMore) {
  start_without_users();
  const Socket socket(server_->address());
  for (const auto& words : {request({"HF1", "members"}), request({"HF1", "members", "1", "a"}),
                            request({"HF1", "drain", "0", "now"})}) {
    EXPECT_TRUE(socket.ask(words).starts_with("-ERR ")) << words;
  }
  EXPECT_EQ(socket.ask(request({"PING"})), "+PONG\r\n");
}

TEST_F(OperatorCallsTest, AServerAloneIsTheOnlyMember) {
  options_.advertise = "locks.example:7420";
  const auto before = std::chrono::system_clock::now() - 1s;
  start_without_users();
  const auto members = service_members(server_->url());
  ASSERT_TRUE(members) << members.error().message();
  ASSERT_EQ(members->size(), 1U);
  EXPECT_EQ(members->front().address, "locks.example:7420");
  EXPECT_TRUE(members->front().leads);
  EXPECT_FALSE(members->front().version.empty());
  EXPECT_GT(members->front().since, before);
}

TEST_F(OperatorCallsTest, AProgramThatTakesNoSuchRequestIsNotStopped) {
  start_without_users();
  const auto drained = drain_server(server_->url(), "", kPatience);
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code(), Errc::kUnsupported);
  EXPECT_NE(drained.error().message().find("cannot be stopped from outside"), std::string::npos);
  EXPECT_TRUE(Client::connect(server_->url()));
}

TEST_F(OperatorCallsTest, ADrainWaitsUntilTheServerIsGone) {
  std::promise<void> asked;
  options_.on_drain = [&] { asked.set_value(); };
  start_without_users();
  std::thread program([&] {
    asked.get_future().wait();
    server_->stop();
  });
  const auto drained = drain_server(server_->url(), "", kPatience);
  program.join();
  ASSERT_TRUE(drained) << drained.error().message();
  EXPECT_EQ(*drained, server_->address());
  EXPECT_FALSE(Socket(server_->address()).connected());
}

TEST_F(OperatorCallsTest, ADrainSaysThatTheProgramGoesOn) {
  options_.on_drain = [] {};
  start_without_users();
  const auto drained = drain_server(server_->url(), "", 200ms);
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code(), Errc::kTimedOut);
  EXPECT_NE(drained.error().message().find("the program that runs it"), std::string::npos)
      << drained.error().message();
}

TEST_F(OperatorCallsTest, ADrainIsForOneServerThatIsNamed) {
  start_without_users();
  const std::string two = server_->url() + ",127.0.0.1:1";
  const auto which = drain_server(two, "", kPatience);
  ASSERT_FALSE(which);
  EXPECT_EQ(which.error().code(), Errc::kInvalidArgument);
  EXPECT_NE(which.error().message().find("several servers"), std::string::npos);
  const auto away = drain_server(two, "127.0.0.1:1", kPatience);
  ASSERT_FALSE(away);
  EXPECT_EQ(away.error().code(), Errc::kUnavailable);
  EXPECT_EQ(drain_server(two, "a b", kPatience).error().code(), Errc::kInvalidArgument);
  EXPECT_EQ(drain_server("memory:", "", kPatience).error().code(), Errc::kUnsupported);
}

}  // namespace
}  // namespace holdfast::server
