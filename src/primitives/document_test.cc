#include "src/primitives/document.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::primitives {
namespace {

const std::string kName = "orders/42";

Errc code_of(const Result<std::optional<std::string>>& opened) {
  EXPECT_FALSE(opened);
  return opened ? Errc{} : opened.error().code();
}

TEST(DocumentTest, GivesBackTheBodyThatWasPutIn) {
  for (const std::string& body : {std::string(), std::string("1 2 "), std::string("a\nb\0c", 5)}) {
    const auto opened = open_document(make_document("latch", body), "latch", kName);
    ASSERT_TRUE(opened) << opened.error().message();
    EXPECT_EQ(*opened, body);
  }
}

TEST(DocumentTest, NothingIsNoDocument) {
  const auto opened = open_document("", "latch", kName);
  ASSERT_TRUE(opened);
  EXPECT_FALSE(*opened);
}

TEST(DocumentTest, AnotherKindIsRefusedByName) {
  const auto opened = open_document(make_document("election", "1 "), "latch", kName);
  EXPECT_EQ(code_of(opened), Errc::kInvalidArgument);
  EXPECT_NE(opened.error().message().find("election"), std::string::npos);
  EXPECT_NE(opened.error().message().find(kName), std::string::npos);
}

TEST(DocumentTest, AValueOfAProgramIsRefused) {
  for (const char* text :
       {"x", "\n", " \n", "latch", "latch 1", "latch\n1", "Latch 1\n", "latchx 1\n", "latch1\n",
        " latch 1\n", "{\"leader\": 1}\n", "\xff\xfe 1\n"}) {
    EXPECT_EQ(code_of(open_document(text, "latch", kName)), Errc::kInvalidArgument) << text;
  }
}

TEST(DocumentTest, AnotherFormAsksForAnUpgrade) {
  for (const char* text :
       {"latch 2\n5 5 ", "latch \n5 5 ", "latch 01\n", "latch 1 \n", "latch  1\n", "latch 1\r\n"}) {
    EXPECT_EQ(code_of(open_document(text, "latch", kName)), Errc::kVersionMismatch) << text;
  }
}

TEST(DocumentTest, FieldsAreReadInTheirOrder) {
  std::string body;
  const std::string odd("7: \n\0", 5);
  put(body, 0);
  put(body, UINT64_MAX);
  put(body, Token{3, 42});
  put_text(body, odd);
  put_text(body, "");
  Fields fields(body);
  EXPECT_EQ(fields.number(), 0U);
  EXPECT_EQ(fields.number(), UINT64_MAX);
  EXPECT_EQ(fields.token(), (Token{3, 42}));
  EXPECT_EQ(fields.text(), odd);
  EXPECT_EQ(fields.text(), "");
  EXPECT_TRUE(fields.at_end());
  EXPECT_TRUE(fields.good());
}

TEST(DocumentTest, WhatIsNoNumberIsNotRead) {
  for (const char* text :
       {"", "1", " ", "x ", "-1 ", "+1 ", "1x ", "0x1 ", " 1 ", "1\n ", "18446744073709551616 "}) {
    Fields fields(text);
    EXPECT_FALSE(fields.number()) << text;
    EXPECT_FALSE(fields.good()) << text;
  }
}

TEST(DocumentTest, WhatIsNoTokenIsNotRead) {
  for (const char* text : {"", "1.1", " ", ". ", "1. ", ".1 ", "a.b ", "4294967296.1 ", "-1.1 "}) {
    Fields fields(text);
    EXPECT_FALSE(fields.token()) << text;
    EXPECT_FALSE(fields.good()) << text;
  }
}

TEST(DocumentTest, ATextThatDoesNotFitIsNotRead) {
  for (const char* text :
       {"", "0", "0:", "1:a", "2:a ", "1:ab ", ":a ", "a:a ", "-1:a ", "1 a ",
        "18446744073709551615:a ", "18446744073709551614: ", "99999999999999999999:a "}) {
    Fields fields(text);
    EXPECT_FALSE(fields.text()) << text;
    EXPECT_FALSE(fields.good()) << text;
  }
}

TEST(DocumentTest, AfterABadFieldNothingIsGood) {
  Fields fields("x 1 ");
  EXPECT_FALSE(fields.number());
  static_cast<void>(fields.number());
  EXPECT_FALSE(fields.good());
}

}  // namespace
}  // namespace holdfast::primitives
