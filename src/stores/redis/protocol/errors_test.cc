#include "src/stores/redis/protocol/errors.h"

#include <string>

#include <gtest/gtest.h>

namespace holdfast::stores::redis {
namespace {

Error error_of(std::string text) {
  return to_error({Reply::Kind::kError, 0, std::move(text), {}}, "redis://h:6379: acquire 'a'");
}

TEST(RedisErrorsTest, EveryKnownAnswerHasItsCode) {
  struct Row {
    const char* answer;
    Errc code;
  };
  // As Redis 7.0 words them.
  for (const Row& row : {
           Row{"NOSCRIPT No matching script. Please use EVAL.", Errc::kUnavailable},
           Row{"READONLY You can't write against a read only replica.", Errc::kUnavailable},
           Row{"READONLY You can't write against a read only replica. script: 1, on "
               "@user_script:1.",
               Errc::kUnavailable},
           Row{"LOADING Redis is loading the dataset in memory", Errc::kUnavailable},
           Row{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
               Errc::kUnavailable},
           Row{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to "
               "persist to disk.",
               Errc::kUnavailable},
           Row{"OOM command not allowed when used memory > 'maxmemory'.", Errc::kUnavailable},
           Row{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN "
               "NOSAVE.",
               Errc::kUnavailable},
           Row{"UNKILLABLE Sorry the script already executed write commands against the dataset.",
               Errc::kUnavailable},
           Row{"NOREPLICAS Not enough good replicas to write.", Errc::kUnavailable},
           Row{"CLUSTERDOWN Hash slot not served", Errc::kUnavailable},
           Row{"TRYAGAIN Multiple keys request during rehashing of slot", Errc::kUnavailable},
           Row{"EXECABORT Transaction discarded because of previous errors.", Errc::kUnavailable},
           Row{"ERR max number of clients reached", Errc::kUnavailable},
           Row{"MOVED 3999 127.0.0.1:6381", Errc::kUnsupported},
           Row{"ASK 3999 127.0.0.1:6381", Errc::kUnsupported},
           Row{"CROSSSLOT Keys in request don't hash to the same slot", Errc::kUnsupported},
           Row{"NOAUTH Authentication required.", Errc::kPermissionDenied},
           Row{"WRONGPASS invalid username-password pair or user is disabled.",
               Errc::kPermissionDenied},
           Row{"ERR ACL failure in script: User u has no permissions to run the 'set' command "
               "script: "
               "1, on @user_script:1.",
               Errc::kPermissionDenied},
           Row{"ERR The user executing the script can't run this command or subcommand script: 1, "
               "on @user_script:1.",
               Errc::kPermissionDenied},
           Row{"NOPERM this user has no permissions to run the 'evalsha' command",
               Errc::kPermissionDenied},
           Row{"DENIED Redis is running in protected mode because ...", Errc::kPermissionDenied},
           Row{"ERR AUTH <password> called without any password configured for the default user.",
               Errc::kPermissionDenied},
           Row{"WRONGTYPE Operation against a key holding the wrong kind of value",
               Errc::kCorruptState},
           Row{"ERR DB index is out of range", Errc::kInvalidArgument},
           Row{"ERR SELECT is not allowed in cluster mode", Errc::kInvalidArgument},
           Row{"ERR unknown command 'EVALSHA'", Errc::kUnsupported},
           Row{"ERR Error compiling script (new function): user_script:1: unexpected symbol near "
               "'#'",
               Errc::kUnsupported},
           Row{"ERR Invalid command passed to redis.acl_check_cmd()", Errc::kUnsupported},
           // May have written.
           Row{"ERR Error running script: Script killed by user with SCRIPT KILL.",
               Errc::kOutcomeUnknown},
           Row{"BUSY Script killed by user with SCRIPT KILL.", Errc::kOutcomeUnknown},
           Row{"ERR user_script:1: attempt to index a nil value script: 1, on @user_script:1.",
               Errc::kOutcomeUnknown},
           Row{"BUSYKEY Target key name already exists.", Errc::kOutcomeUnknown},
           Row{"", Errc::kOutcomeUnknown},
       }) {
    const Error error = error_of(row.answer);
    EXPECT_EQ(errc_name(error.code()), errc_name(row.code)) << row.answer;
    EXPECT_TRUE(error.message().starts_with("redis://h:6379: acquire 'a': ")) << error.message();
  }
}

TEST(RedisErrorsTest, AForeignKeyInAScriptLeavesTheOutcomeOpen) {
  const Error error = error_of(
      "ERR Script attempted to access a non local key in a cluster node script: 1, on "
      "@user_script:1.");
  EXPECT_EQ(error.code(), Errc::kOutcomeUnknown) << error.message();
}

TEST(RedisErrorsTest, NothingIsUnknownOfWhatOnlyReads) {
  const auto code = [](const char* answer) {
    return to_error({Reply::Kind::kError, 0, answer, {}}, "ask", /*reads_only=*/true).code();
  };
  EXPECT_EQ(code("ERR what no server has ever said"), Errc::kUnsupported);
  for (const char* answer : {"ERR Error running script: Script killed by user with SCRIPT KILL.",
                             "ERR Script attempted to access a non local key in a cluster node"}) {
    EXPECT_EQ(code(answer), Errc::kUnavailable);
  }
}

TEST(RedisErrorsTest, AServerBeforeSevenIsToldWhatItNeeds) {
  const Error old = error_of("ERR Error compiling script (new function): user_script:1: ...");
  EXPECT_NE(old.message().find("Redis 7.0 or later"), std::string::npos) << old.message();
}

TEST(RedisErrorsTest, AMessageIsOneLineOfBoundedLength) {
  const Error error = error_of("ERR " + std::string(10'000, 'x') + "\r\n\x1b[2J");
  EXPECT_LT(error.message().size(), 500U);
  const Error controlled = error_of("ERR a\nb\x1b");
  for (const char c : controlled.message()) EXPECT_GE(c, ' ');
}

TEST(RedisErrorsTest, QuotedArgumentsAreCutOff) {
  const Error error = error_of("ERR unknown command 'AUTH', with args beginning with: 'hunter2' ");
  EXPECT_EQ(error.message().find("hunter2"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::stores::redis
