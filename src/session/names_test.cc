#include "src/session/names.h"

#include <gtest/gtest.h>

#include "src/base/lock_name.h"

namespace holdfast::session {
namespace {

TEST(NamesTest, OrdinaryAndOddNamesAreAllowed) {
  for (const std::string& name :
       {std::string("a"), std::string("orders/42"), std::string("{x}'\"%\\ $(id)"),
        std::string("日本語"), std::string("a..b/...c"), std::string(256, 'x'), std::string("/"),
        std::string("\xf0\x9f\x94\x92")}) {
    EXPECT_TRUE(check_name(name).has_value()) << name;
  }
}

TEST(NamesTest, EmptyLongAndDotDotAreRefused) {
  for (const std::string& name : {std::string(), std::string(257, 'x'), std::string(".."),
                                  std::string("a/../b"), std::string("a/..")}) {
    EXPECT_FALSE(check_name(name).has_value()) << name;
  }
}

TEST(NamesTest, AnInnerNameIsNoUsersName) {
  const auto inner = InnerName::make("a/b", "barrier");
  ASSERT_TRUE(inner);
  EXPECT_EQ(inner->text(), "a/b/../barrier");
  EXPECT_FALSE(check_name(inner->text()));
  EXPECT_TRUE(check_shown_name(inner->text()));
  EXPECT_FALSE(InnerName::make("..", "barrier"));
  EXPECT_EQ(InnerName::make(std::string(245, 'x'), "barrier")->text().size(), 256U);
  EXPECT_FALSE(InnerName::make(std::string(246, 'x'), "barrier"));
}

TEST(NamesTest, WhatIsShownIsAUsersNameOrAnInnerOne) {
  EXPECT_TRUE(check_shown_name("a/b"));
  for (const char* name : {"", "..", "a/..", "../barrier", "a/../", "a/../b/c", "a/../b/../barrier",
                           "a/../Barrier", "a/../b\n"}) {
    EXPECT_FALSE(check_shown_name(name)) << name;
  }
  EXPECT_TRUE(check_shown_name(std::string(245, 'x').append("/../barrier")));
  EXPECT_FALSE(check_shown_name(std::string(246, 'x').append("/../barrier")));
}

TEST(NamesTest, ControlCharactersAreRefused) {
  for (const std::string& name : {std::string("a\nb"), std::string("a\0b", 3), std::string("\x7f"),
                                  std::string("\x1b[2J"), std::string("\xc2\x85")}) {
    EXPECT_FALSE(check_name(name).has_value());
  }
}

TEST(NamesTest, MalformedUtf8IsRefusedWithItsPlace) {
  // A lone tail, a cut sequence, an overlong form, a surrogate, beyond the last code point.
  for (const char* name :
       {"ab\x80", "ab\xc3", "ab\xc0\xaf", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80", "ab\xff"}) {
    const auto checked = check_name(name);
    ASSERT_FALSE(checked.has_value());
    EXPECT_NE(checked.error().message().find("at byte 2"), std::string::npos)
        << checked.error().message();
  }
}

TEST(NamesTest, AMessageSaysWhatIsWrongAndWhere) {
  const std::pair<std::string, const char*> names[] = {
      {"", "it is empty"},
      {std::string(300, 'x'), "it has 300 bytes; a name has at most 256"},
      {"orders/\xff", "it is not UTF-8 at byte 7 (0xFF)"},
      {"a\x1b[2J", "it has the control character U+001B at byte 1"},
      {"\xc3\xa9\xc2\x85", "it has the control character U+0085 at byte 2"}};
  for (const auto& [name, what] : names) {
    for (const auto& checked :
         {check_name(name), check_shown_name(name), base::check_lock_prefix(name)}) {
      if (name.empty() && checked) continue;  // A beginning may be empty.
      ASSERT_FALSE(checked) << what;
      EXPECT_NE(checked.error().message().find(what), std::string::npos)
          << checked.error().message();
    }
  }
  EXPECT_TRUE(base::check_lock_prefix("a/../b"));
}

TEST(NamesTest, MessagesShowNoRawBytes) {
  const auto checked = check_name("\x1b[31mred\xff");
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().message().find('\x1b'), std::string::npos);
  EXPECT_EQ(checked.error().message().find('\xff'), std::string::npos);
}

TEST(NamesTest, WhatTurnsTheDirectionOfWritingIsAllowedAndShownEscaped) {
  for (const std::string mark : {"\xd8\x9c", "\xe2\x80\x8e", "\xe2\x80\xae", "\xe2\x81\xa9"}) {
    EXPECT_TRUE(check_name(mark));
    EXPECT_EQ(printable("a" + mark + "b").find(mark), std::string::npos);
  }
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae");
  EXPECT_EQ(printable("\xd8\x9b\xe2\x80\x90"), "\xd8\x9b\xe2\x80\x90");
}

}  // namespace
}  // namespace holdfast::session
