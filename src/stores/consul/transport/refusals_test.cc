#include "src/stores/consul/transport/refusals.h"

#include <gtest/gtest.h>

#include "src/stores/consul/transport/errors.h"
#include "src/stores/consul/transport/messages.h"

namespace holdfast::stores::consul {
namespace {

using namespace std::chrono_literals;

// A client, its clock, and what Consul 1.8.7 was heard to answer.
class ConsulRefusalsTest : public ::testing::Test {
 protected:
  // The code of what came of it; nullopt: that it was carried out.
  std::optional<Errc> on(int status, const char* body, bool changes = true) {
    const auto reply = refusals_.weigh(now_, changes, HttpReply{status, 0, body});
    if (reply->status == 200) return std::nullopt;
    return to_error(*reply, "trying", !changes).code();
  }
  std::optional<Errc> on_session_opened() { return on(200, R"({"ID":"x"})"); }
  std::optional<Errc> on_failure(Errc code) {
    return refusals_.weigh(now_, false, Error(code, "connection refused")).error().code();
  }

  Refusals refusals_;
  base::BootInstant now_{1000s};
};

TEST_F(ConsulRefusalsTest, AnUnknownTokenIsRefusedAtOnce) {
  EXPECT_EQ(on(403, "ACL not found"), Errc::kPermissionDenied);
  on_failure(Errc::kUnavailable);
  EXPECT_EQ(on(403, "ACL not found"), Errc::kPermissionDenied) << "it was never taken";
}

TEST_F(ConsulRefusalsTest, ATokenThatIsDeletedIsRefusedAtOnce) {
  on_session_opened();
  EXPECT_EQ(on(403, "ACL not found"), Errc::kPermissionDenied);
  EXPECT_EQ(on(403, "Permission denied"), Errc::kPermissionDenied);
}

TEST_F(ConsulRefusalsTest, AServerThatComesBackMayNotKnowTheTokenYet) {
  on_session_opened();
  on_failure(Errc::kUnavailable);
  for (const char* words : {"ACL not found", "rpc error making call: ACL not found",
                            "Permission denied", "rpc error making call: Permission denied"}) {
    EXPECT_EQ(on(403, words), Errc::kUnavailable) << words;
    EXPECT_EQ(on(403, words, /*changes=*/false), Errc::kUnavailable) << words;
  }
  EXPECT_EQ(on(200, "true"), std::nullopt);
}

TEST_F(ConsulRefusalsTest, AServerThatCannotServeMayNotKnowTheTokenAfterwards) {
  for (const char* words :
       {"No cluster leader", "raft is already shutdown", "leadership lost while committing log"}) {
    Refusals fresh;
    std::swap(refusals_, fresh);
    on_session_opened();
    on(500, words);
    EXPECT_EQ(on(403, "ACL not found"), Errc::kUnavailable) << words;
  }
}

TEST_F(ConsulRefusalsTest, ARefusalThatLastsIsTheLastWord) {
  on_session_opened();
  on_failure(Errc::kOutcomeUnknown);
  now_ += Refusals::kSettles - 1ms;
  EXPECT_EQ(on(403, "ACL not found"), Errc::kUnavailable);
  now_ += 1ms;
  EXPECT_EQ(on(403, "ACL not found"), Errc::kPermissionDenied);
  on_failure(Errc::kUnavailable);
  EXPECT_EQ(on(403, "ACL not found"), Errc::kUnavailable) << "it was away again";
}

TEST_F(ConsulRefusalsTest, WhatNeedsNoTokenSaysNothingOfIt) {
  on(200, R"("127.0.0.1:8300")", /*changes=*/false);
  on_failure(Errc::kUnavailable);
  EXPECT_EQ(on(403, "ACL not found"), Errc::kPermissionDenied);
}

TEST_F(ConsulRefusalsTest, AStepThatMayNotBeTakenIsARefusal) {
  on_session_opened();
  const char* body = R"({"Results":null,"Errors":[{"OpIndex":0,"What":"Permission denied"}]})";
  const auto code = [&] {
    const auto reply = refusals_.weigh(now_, true, HttpReply{409, 0, body});
    return read_transaction(*reply, "trying", false).error().code();
  };
  EXPECT_EQ(code(), Errc::kPermissionDenied);
  on_failure(Errc::kUnavailable);
  EXPECT_EQ(code(), Errc::kUnavailable);
}

TEST_F(ConsulRefusalsTest, ACertificateThatWasTakenMayBeRefusedByAServerThatStarts) {
  EXPECT_EQ(on_failure(Errc::kPermissionDenied), Errc::kPermissionDenied);
  on_session_opened();
  EXPECT_EQ(on_failure(Errc::kPermissionDenied), Errc::kPermissionDenied);
  on_failure(Errc::kUnavailable);
  EXPECT_EQ(on_failure(Errc::kPermissionDenied), Errc::kUnavailable);
  now_ += Refusals::kSettles;
  EXPECT_EQ(on_failure(Errc::kPermissionDenied), Errc::kPermissionDenied);
}

}  // namespace
}  // namespace holdfast::stores::consul
