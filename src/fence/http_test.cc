#include "holdfast/fence/http.h"

#include <gtest/gtest.h>

namespace holdfast::fence {
namespace {

std::string text(std::uint64_t counter) { return Token{0, counter}.to_string(); }

class FenceHttpTest : public ::testing::Test {
 protected:
  HttpAnswer ask(const HttpHeaders& headers, std::string_view lock = "") {
    return admit_http(headers, "stock", lock,
                      [this](const std::string& resource, const Token& token, const Mode& mode) {
                        ++asked_;
                        return record_.admit(resource, token, mode);
                      });
  }

  MemoryRecord record_;
  int asked_ = 0;
};

TEST_F(FenceHttpTest, AnOldTokenFailsItsPrecondition) {
  EXPECT_EQ(ask({.token = text(5)}).status, 200);
  EXPECT_EQ(ask({.token = text(5)}).status, 200);
  EXPECT_EQ(ask({.token = text(6)}).status, 200);
  const HttpAnswer late = ask({.token = text(5)});
  EXPECT_EQ(late.status, 412);
  EXPECT_NE(late.message.find(text(6)), std::string::npos) << late.message;
}

TEST_F(FenceHttpTest, ARequestWithoutAReadableTokenIsNeverAdmitted) {
  EXPECT_EQ(ask({}).status, 428);
  const std::string both = text(5) + ", " + text(6);
  for (const std::string& token : {std::string(), std::string("5"), both, text(5) + "0"}) {
    EXPECT_EQ(ask({.token = token}).status, 400) << token;
  }
  EXPECT_EQ(ask({.token = text(5), .mode = "any"}).status, 400);
  EXPECT_EQ(ask({.token = text(5), .lock = "%zz"}).status, 400);
  EXPECT_EQ(asked_, 0);
  EXPECT_EQ(ask({.token = text(0)}).status, 400);
}

TEST_F(FenceHttpTest, BlanksAroundAValueAreNotOfIt) {
  EXPECT_EQ(ask({.token = " \t" + text(5) + " ", .mode = " shared "}).status, 200);
}

TEST_F(FenceHttpTest, ATokenOfAnotherLockIsAConflict) {
  EXPECT_EQ(ask({.token = text(5), .lock = "a%20b"}, "a b").status, 200);
  EXPECT_EQ(ask({.token = text(5), .lock = "a"}, "a b").status, 409);
  EXPECT_EQ(ask({.token = text(5)}, "a b").status, 409);
  EXPECT_EQ(asked_, 1);
}

TEST_F(FenceHttpTest, SharedTokensAreNotRecordedAndPermitsNotImplemented) {
  EXPECT_EQ(ask({.token = text(5)}).status, 200);
  EXPECT_EQ(ask({.token = text(9), .mode = "shared"}).status, 200);
  EXPECT_EQ(ask({.token = text(5), .mode = "shared"}).status, 412);
  EXPECT_EQ(ask({.token = text(9), .mode = "permits"}).status, 501);
  EXPECT_EQ(record_.recorded("stock"), (Token{0, 5}));
}

TEST_F(FenceHttpTest, WhatTheRecordSaysBecomesAStatusAndOneLineOfAscii) {
  const auto with = [](Errc code) {
    return admit_http({.token = text(5)}, "stock", "", [&](auto&...) -> Result<void> {
      return Error(code, "line\r\nX-Header: \xc3\xa4");
    });
  };
  EXPECT_EQ(with(Errc::kUnavailable).status, 503);
  EXPECT_EQ(with(Errc::kCorruptState).status, 500);
  EXPECT_EQ(with(Errc::kLost).status, 412);
  EXPECT_EQ(with(Errc::kLost).message, "line??X-Header: ??");
}

TEST_F(FenceHttpTest, WhatAClientSendsIsWhatAServerReads) {
  const std::string name = "orders/42, \"\xc3\xa4\" 100%";
  for (const Mode& mode : {Mode::exclusive(), Mode::shared()}) {
    HttpHeaders headers;
    for (const auto& [key, value] : http_headers(name, Token{1, 7}, mode)) {
      if (key == "Holdfast-Token") headers.token = value;
      if (key == "Holdfast-Lock") headers.lock = value;
      if (key == "Holdfast-Mode") headers.mode = value;
      EXPECT_EQ(value.find_first_of("\r\n, \""), value.npos) << value;
    }
    Mode seen = Mode::permits(1, 1);
    const auto answer = admit_http(headers, "stock", name,
                                   [&](auto&, const Token& token, const Mode& of) -> Result<void> {
                                     EXPECT_EQ(token, (Token{1, 7}));
                                     seen = of;
                                     return {};
                                   });
    EXPECT_TRUE(answer.accepted()) << answer.message;
    EXPECT_EQ(seen, mode);
  }
}

}  // namespace
}  // namespace holdfast::fence
