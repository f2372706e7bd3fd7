#include "src/stores/etcd/transport/errors.h"

#include <gtest/gtest.h>

namespace holdfast::stores::etcd {
namespace {

using status::kUnavailable;

Errc code_of(int code, const std::string& text, bool reads_only = false) {
  return judge({code, text}, reads_only).code;
}

TEST(EtcdErrorsTest, OnlyWhatWasSurelyNotAppliedIsUnavailable) {
  const std::string refused = "cannot connect: Connection refused";
  EXPECT_EQ(judge({kUnavailable, refused, false, /*ours=*/true}, false).code, Errc::kUnavailable);
  // A proxy may say the same, after it has passed the request on.
  EXPECT_EQ(code_of(kUnavailable, refused), Errc::kOutcomeUnknown);
  EXPECT_EQ(judge({kUnavailable, "the connection was closed", /*unsent=*/true}, false).code,
            Errc::kUnavailable);
  EXPECT_EQ(code_of(kUnavailable, "etcdserver: no leader"), Errc::kUnavailable);
  EXPECT_EQ(code_of(8, "etcdserver: mvcc: database space exceeded"), Errc::kUnavailable);
  EXPECT_EQ(code_of(kUnavailable, "the connection was closed"), Errc::kOutcomeUnknown);
  EXPECT_EQ(code_of(kUnavailable, "etcdserver: request timed out"), Errc::kOutcomeUnknown);
  EXPECT_EQ(code_of(kUnavailable, "etcdserver: leader changed"), Errc::kOutcomeUnknown);
  EXPECT_EQ(code_of(4, "Deadline Exceeded"), Errc::kOutcomeUnknown);
  EXPECT_EQ(code_of(2, "a word of a later version"), Errc::kOutcomeUnknown);
}

TEST(EtcdErrorsTest, AQuotaThatIsUsedUpIsToldApart) {
  EXPECT_TRUE(is_out_of_space(to_error({8, "etcdserver: mvcc: database space exceeded"},
                                       /*reads_only=*/false, "one")));
  EXPECT_FALSE(is_out_of_space(to_error({14, "etcdserver: no leader"}, false, "one")));
}

TEST(EtcdErrorsTest, AReadIsNeverOfUnknownOutcome) {
  EXPECT_EQ(code_of(kUnavailable, "the connection was closed", /*reads_only=*/true),
            Errc::kUnavailable);
  EXPECT_EQ(code_of(4, "Deadline Exceeded", /*reads_only=*/true), Errc::kUnavailable);
}

TEST(EtcdErrorsTest, OnlyThisSideCutsAnAnswerOff) {
  EXPECT_TRUE(is_too_large({status::kResourceExhausted, kTooLong, false, /*ours=*/true}));
  EXPECT_FALSE(is_too_large({status::kResourceExhausted, kTooLong}));
}

TEST(EtcdErrorsTest, AWebServersAnswerIsToldAsSuch) {
  const Refusal page{status::kUnknown, std::string(kNoGrpc) + "200, content-type text/html", false,
                     /*ours=*/true};
  // A proxy may have passed the request on.
  EXPECT_EQ(judge(page, /*reads_only=*/false).code, Errc::kOutcomeUnknown);
  EXPECT_EQ(judge(page, /*reads_only=*/true).code, Errc::kUnavailable);
  const std::string message = to_error(page, true, "etcd://h:80").message();
  EXPECT_NE(message.find("not etcd"), std::string::npos) << message;
  EXPECT_NE(message.find("text/html"), std::string::npos) << message;
}

TEST(EtcdErrorsTest, RightsAndLogInAreToldApart) {
  EXPECT_EQ(code_of(3, "etcdserver: authentication failed, invalid user ID or password"),
            Errc::kPermissionDenied);
  EXPECT_EQ(code_of(7, "etcdserver: permission denied"), Errc::kPermissionDenied);
  EXPECT_EQ(code_of(3, "etcdserver: user name is empty"), Errc::kPermissionDenied);
  EXPECT_EQ(judge({16, "etcdserver: invalid auth token"}, false).remedy, Remedy::kLogInAgain);
  EXPECT_TRUE(judge({5, "etcdserver: requested lease not found"}, false).lease_gone);
  EXPECT_EQ(code_of(12, "unknown service"), Errc::kUnsupported);
}

TEST(EtcdErrorsTest, TheMessageNamesTheServerAndIsOneLine) {
  const Error error = to_error({kUnavailable, "etcdserver: no\nleader"}, false, "etcd://h:2379");
  EXPECT_TRUE(error.message().starts_with("etcd://h:2379: ")) << error.message();
  EXPECT_EQ(error.message().find('\n'), std::string::npos);
}

}  // namespace
}  // namespace holdfast::stores::etcd
