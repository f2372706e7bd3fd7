#include "src/cli/text/text.h"

#include <gtest/gtest.h>

namespace holdfast::cli {
namespace {

TEST(TextTest, ControlCharactersAreShownNotSent) {
  EXPECT_EQ(printable("plain text"), "plain text");
  EXPECT_EQ(printable("a\x1b[31mb\n\x7f"), "a\\x1b[31mb\\x0a\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\u{9b}");        // C1: an escape sequence in one character.
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\u{202e}");  // Right-to-left override.
  EXPECT_EQ(printable("\xd8\x9c"), "\\u{61c}");       // A mark of direction.
  EXPECT_EQ(printable("\xc3\xbc\xe2\x84\xb5"), "\xc3\xbc\xe2\x84\xb5");
}

TEST(TextTest, WhatIsNotUtf8IsShownByteByByte) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xc3"), "\\xc3");           // Cut off.
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");  // Overlong.
  EXPECT_EQ(printable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // A surrogate.
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(TextTest, ColumnsAreThoseOfATerminal) {
  EXPECT_EQ(columns(""), 0U);
  EXPECT_EQ(columns("\xc3\xbc"
                    "x"),
            2U);
  EXPECT_EQ(columns("\u62a5\u8868/\u591c"), 7U);
  EXPECT_EQ(columns("\u20ac\xff"), 2U) << "also a byte that is no text";
}

TEST(TextTest, TheNearestIsFoundOnlyWhenItIsNear) {
  const std::vector<std::string> options{"--wait", "--ttl", "--shared", "--no-wait"};
  EXPECT_EQ(nearest("--wiat", options), "--wait");
  EXPECT_EQ(nearest("--tll", options), "--ttl");
  EXPECT_EQ(nearest("--share", options), "--shared");
  EXPECT_EQ(nearest("--completely-different", options), "");
}

TEST(TextTest, AnEndlessKeyIsSeenAndNothingElse) {
  std::string dots;
  for (int i = 0; i < 40; ++i) dots += ".a";
  for (const std::string before :
       {"a", "x = 1\n[a", "x = { b", "s = \"\\\"\"\na", "s = '''\n''\n'''\na"}) {
    EXPECT_TRUE(has_endless_key(before + dots)) << before;
  }
  std::string numbers = "a = [1.5";
  for (int i = 0; i < 100; ++i) numbers += ", 1.5";
  for (const std::string& text :
       {"a = \"" + dots, "a = '" + dots + "'", "a = \"\"\"\n" + dots + "\n\"\"\"", "# a" + dots,
        "\"a" + dots + "\" = 1", numbers + "]"}) {
    EXPECT_FALSE(has_endless_key(text)) << text;
  }
}

TEST(TextTest, LongTextIsShortenedBetweenCodePoints) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcdef", 3), "abcdef");
  EXPECT_EQ(shortened("abcdefg", 3), "abc...");
  EXPECT_EQ(shortened("ab\u00e9defg", 3), "ab...");
}

}  // namespace
}  // namespace holdfast::cli
