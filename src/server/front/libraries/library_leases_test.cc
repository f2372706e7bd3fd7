// When the leases of lock libraries begin, on a journal whose writes take their time.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/clock.h"
#include "src/server/testing/plain_client.h"
#include "src/server/testing/sim_journal.h"
#include "src/server/testing/stand_in.h"

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;
using testing::request;
using testing::Socket;

// Time stands still but for the writes of the journal, each of which takes 10 s. As on etcd, a
// renewal from memory is answered after a write that proves the lead.
class LibraryLeasesTest : public ::testing::Test {
 protected:
  static constexpr const char* kExtend = "a4e8783852e6b949f9ef3a97212805108459a890";  // redis-py's
  static constexpr const char* kObtain = "80a1b5f2cfccec3b7119ba7721d2127682b691a7";  // redislock's
  // node-redlock's.
  static constexpr const char* kTakeAll = "96da70f7716f27d278a5218544df37fd8b0a5e4c";
  static constexpr const char* kExtendAll = "aed6f382e410db8ba7926d4e5e9aab410bf2a78a";
  static constexpr const char* kRTake = "149c5a8bf18676fd99e9e6e24923bd64d9b62f94";  // Redisson's
  static constexpr const char* kRForce = "605e338249a7a1d40df83b04f7658354f883b41b";
  static constexpr const char* kRRenew = "6a3d31570dc6f4b0bd32bcdc8e75667747c6f635";

  LibraryLeasesTest() {
    disk_.room = 1'000;
    auto journal = std::make_unique<testing::SimJournal>(disk_);
    journal->confirm_renewals();
    journal->on_write = [this] { micros_ += std::chrono::microseconds(10s).count(); };
    ServiceOptions options;
    options.now = [this, begin = base::BootClock::now()] {
      return begin + std::chrono::microseconds(micros_.load());
    };
    server_.lead(0, std::move(journal), options);
  }

  std::string ask(const std::vector<std::string>& words) const {
    return socket_.ask(request(words));
  }
  std::string pttl(const std::string& name) const { return ask({"PTTL", name}); }

  testing::SimDisk disk_;
  std::atomic<std::int64_t> micros_{0};
  testing::StandIn server_{""};
  const Socket socket_{server_.address()};
};

TEST_F(LibraryLeasesTest, AGrantBeginsWithItsAnswer) {
  ASSERT_EQ(ask({"SET", "a", "me", "NX", "PX", "60000"}), "+OK\r\n");
  EXPECT_EQ(pttl("a"), ":60000\r\n");
  ASSERT_EQ(ask({"EVALSHA", kTakeAll, "2", "b", "c", "me", "60000"}), ":2\r\n");
  EXPECT_EQ(pttl("b"), ":60000\r\n");
  ASSERT_EQ(ask({"EVALSHA", kRTake, "1", "d", "60000", "u:1"}), "$-1\r\n");
  EXPECT_EQ(pttl("d"), ":60000\r\n");
}

TEST_F(LibraryLeasesTest, AnExtensionBeginsWithItsAnswer) {
  ASSERT_EQ(ask({"SET", "a", "me", "NX", "PX", "60000"}), "+OK\r\n");
  // The longer ones are written before they are answered, and each of them once.
  for (const char* ms : {"60000", "90000", "90000", "120000"}) {
    ASSERT_EQ(ask({"PEXPIRE", "a", ms}), ":1\r\n");
    EXPECT_EQ(pttl("a"), ":" + std::string(ms) + "\r\n");
  }
  ASSERT_EQ(ask({"EVALSHA", kExtend, "1", "a", "me", "150000", "1"}), ":1\r\n");
  EXPECT_EQ(pttl("a"), ":150000\r\n");
  ASSERT_EQ(ask({"SET", "b", "me", "NX", "PX", "60000"}), "+OK\r\n");
  ASSERT_EQ(ask({"EVALSHA", kObtain, "1", "b", "me", "2", "60000"}), "+OK\r\n");
  EXPECT_EQ(pttl("b"), ":60000\r\n");
  ASSERT_EQ(ask({"EVALSHA", kExtendAll, "2", "a", "b", "me", "180000"}), ":2\r\n");
  EXPECT_EQ(pttl("a"), ":180000\r\n");
}

TEST_F(LibraryLeasesTest, RedissonsReentryAndRenewalBeginWithTheirAnswers) {
  ASSERT_EQ(ask({"EVALSHA", kRTake, "1", "r", "60000", "u:1"}), "$-1\r\n");
  ASSERT_EQ(ask({"EVALSHA", kRTake, "1", "r", "60000", "u:1"}), "$-1\r\n");
  EXPECT_EQ(pttl("r"), ":60000\r\n");
  EXPECT_EQ(ask({"EVALSHA", kRRenew, "2", "r", "none", "60000", "u:1", "u:1"}),
            "*2\r\n:1\r\n:0\r\n");
  EXPECT_EQ(pttl("r"), ":60000\r\n");
}

// Each reply waits for those before it.
TEST_F(LibraryLeasesTest, ALeaseWaitsForEarlierRepliesOfItsConnection) {
  ASSERT_EQ(ask({"SET", "a", "me", "NX", "PX", "60000"}), "+OK\r\n");
  ASSERT_TRUE(socket_.send(request({"PEXPIRE", "a", "90000"}) +
                           request({"SET", "b", "me", "NX", "PX", "60000"})));
  const std::string whole = ":1\r\n+OK\r\n";
  std::string all;
  while (all.size() < whole.size()) {
    const std::string more = socket_.receive();
    ASSERT_FALSE(more.empty()) << all;
    all += more;
  }
  EXPECT_EQ(all, whole);
  EXPECT_EQ(pttl("b"), ":60000\r\n");
}

// Rule 37.
TEST_F(LibraryLeasesTest, WhatBreaksALockIsAnsweredAfterItsCommit) {
  const Socket other(server_.address());
  const auto begun = [&] { return std::chrono::microseconds(micros_.load()); };
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"DEL", "a"}, {"EVALSHA", kRForce, "2", "a", "c", "0", "PUBLISH"}}) {
    ASSERT_EQ(ask({"SET", "a", "me", "NX", "PX", "60000"}), "+OK\r\n");
    const auto before = begun();
    ASSERT_EQ(other.ask(request(words)), ":1\r\n");
    EXPECT_EQ(begun() - before, 20s) << "the look's write, and its own";
  }
}

// Nobody reads the answer any more, and its lease was to begin with it.
TEST_F(LibraryLeasesTest, AConnectionThatEndsMeanwhileIsForgotten) {
  {
    const Socket gone(server_.address());
    ASSERT_TRUE(gone.send(request({"SET", "a", "me", "NX", "PX", "60000"}) +
                          request({"PEXPIRE", "a", "90000"}) +
                          request({"SET", "b", "me", "NX", "PX", "60000"})));
  }
  EXPECT_EQ(ask({"PING"}), "+PONG\r\n");
}

}  // namespace
}  // namespace holdfast::server
