#include "src/server/access/gate.h"

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <gtest/gtest.h>

#include "holdfast/server_tools.h"
#include "src/base/clock.h"

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;
using Verdict = Gate::Verdict;

class GateTest : public ::testing::Test {
 protected:
  static UsersPtr users(const std::string& password) {
    static const std::string hash = *hash_password("right");
    const std::string own = password == "right" ? hash : *hash_password(password);
    return *Users::parse("app password:" + own + " acquire:*", "test");
  }

  // Answers in the order in which they come.
  void judge(const std::string& user, const std::string& password, const std::string& address = "a",
             const std::string& label = "") {
    gate_->judge(
        user, password, address,
        [this, label = label.empty() ? password : label](Verdict verdict, const UserPtr& known) {
          EXPECT_EQ(known != nullptr, verdict == Verdict::kRight);
          answers_.emplace_back(label, verdict);
        });
  }
  std::pair<std::string, Verdict> next() {
    while (answers_.size() == taken_ && loop_.run_one_for(60s) > 0) {
    }
    if (answers_.size() == taken_) return {"nothing came", Verdict::kBusy};
    return answers_[taken_++];
  }
  Verdict asked(const std::string& user, const std::string& password) {
    judge(user, password);
    return next().second;
  }
  void make(GateLimits limits = {.first_delay = 1ms, .longest_delay = 1ms}) {
    gate_ = std::make_unique<Gate>(loop_, limits);
    gate_->use(users("right"));
  }

  asio::io_context loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{loop_.get_executor()};
  std::vector<std::pair<std::string, Verdict>> answers_;
  std::size_t taken_ = 0;
  std::unique_ptr<Gate> gate_;
};

TEST_F(GateTest, OnlyTheRightPasswordOfAUserPasses) {
  make();
  EXPECT_EQ(asked("app", "right"), Verdict::kRight);
  EXPECT_EQ(asked("app", "wrong"), Verdict::kWrong);
  EXPECT_EQ(asked("app", ""), Verdict::kWrong);
  EXPECT_EQ(asked("App", "right"), Verdict::kWrong);
  EXPECT_EQ(asked("nobody", "right"), Verdict::kWrong);
  EXPECT_EQ(asked("", "right"), Verdict::kWrong);
  // The digest keeps names and passwords apart.
  EXPECT_EQ(asked("ap", "pright"), Verdict::kWrong);
  EXPECT_EQ(asked("app", "right"), Verdict::kRight);
}

TEST_F(GateTest, APasswordThatWasRightOnceDoesNotWaitBehindAFlood) {
  make();
  ASSERT_EQ(asked("app", "right"), Verdict::kRight);
  for (int i = 0; i < 8; ++i) judge("app", "wrong" + std::to_string(i));
  judge("app", "right");
  EXPECT_EQ(next().first, "right");
}

TEST_F(GateTest, OneHashServesAllWhoGiveThePasswordMeanwhile) {
  make({.waiting = 1, .waiting_of_address = 1});
  for (int i = 0; i < 10; ++i) judge("app", "right", "address" + std::to_string(i));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(next().second, Verdict::kRight);
}

TEST_F(GateTest, TooManyPasswordsOfOneAddressAreTurnedAwayAndOthersAreNot) {
  make({.waiting = 64, .waiting_of_address = 2, .first_delay = 1ms, .longest_delay = 1ms});
  for (int i = 0; i < 6; ++i) judge("app", "wrong" + std::to_string(i), "bad");
  judge("app", "right", "good");
  int busy = 0;
  int right = 0;
  for (int i = 0; i < 7; ++i) {
    const auto [label, verdict] = next();
    busy += verdict == Verdict::kBusy ? 1 : 0;
    right += verdict == Verdict::kRight ? 1 : 0;
    EXPECT_EQ(verdict == Verdict::kRight, label == "right");
  }
  EXPECT_EQ(busy, 3) << "one is under way and two wait";
  EXPECT_EQ(right, 1);
}

TEST_F(GateTest, WrongPasswordsAreAnsweredLaterAndLater) {
  make({.first_delay = 50ms, .longest_delay = 400ms});
  for (const auto least : {50ms, 100ms, 200ms, 400ms, 400ms}) {
    const auto begin = base::BootClock::now();
    EXPECT_EQ(asked("app", "wrong"), Verdict::kWrong);
    EXPECT_GE(base::BootClock::now() - begin, least);
  }
}

TEST_F(GateTest, ClientsWaitLongerThanTheLongestDelay) {
  constexpr auto kConnectTimeout = 3s;  // The default of holdfast:// URLs.
  EXPECT_LE(GateLimits{}.longest_delay + 1s, kConnectTimeout);
}

TEST_F(GateTest, NewUsersAreAskedForTheirNewPasswords) {
  make();
  ASSERT_EQ(asked("app", "right"), Verdict::kRight);
  const UsersPtr changed = users("new");
  judge("app", "wrong", "a", "meanwhile");
  gate_->use(changed);
  EXPECT_EQ(next(), std::pair(std::string("meanwhile"), Verdict::kBusy))
      << "what was asked before the change is asked again";
  EXPECT_EQ(asked("app", "right"), Verdict::kWrong);
  EXPECT_EQ(asked("app", "new"), Verdict::kRight);
}

TEST_F(GateTest, AStopDropsWhatIsUnderWay) {
  make();
  for (int i = 0; i < 5; ++i) judge("app", "wrong" + std::to_string(i));
  gate_.reset();
  work_.reset();
  loop_.run();
  EXPECT_TRUE(answers_.empty());
}

// A peer that never says what its handshake waits for.
class SilentPeer final : public port::TlsSession {
 public:
  port::SocketIo shake_hands() override { return {port::SocketIo::Next::kWantRead}; }
  port::SocketIo read(char*, std::size_t) override { return {port::SocketIo::Next::kEnded}; }
  port::SocketIo write(std::string_view) override { return {port::SocketIo::Next::kEnded}; }
  bool buffers() const override { return false; }
  void say_goodbye() override {}
};

struct Pair {
  Pair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0); }
  ~Pair() { ::close(ends[1]); }
  bool is_closed() const {
    char byte = 0;
    return ::recv(ends[1], &byte, 1, 0) == 0;
  }
  int ends[2] = {-1, -1};
};

TEST_F(GateTest, AHandshakeThatTakesTooLongIsGivenUp) {
  make({.handshake = 20ms});
  const Pair pair;
  int told = 0;
  gate_->shake_hands(pair.ends[0], std::make_unique<SilentPeer>(),
                     [&](int socket, std::unique_ptr<port::TlsSession> session) {
                       EXPECT_EQ(socket, -1);
                       EXPECT_EQ(session, nullptr);
                       ++told;
                     });
  while (told == 0 && loop_.run_one_for(60s) > 0) {
  }
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(pair.is_closed());
}

TEST_F(GateTest, AStopClosesTheSocketsOfHandshakes) {
  make();
  const Pair pair;
  gate_->shake_hands(pair.ends[0], std::make_unique<SilentPeer>(),
                     [](int, std::unique_ptr<port::TlsSession>) { FAIL(); });
  gate_.reset();
  EXPECT_TRUE(pair.is_closed());
}

}  // namespace
}  // namespace holdfast::server
