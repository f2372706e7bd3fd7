#include "src/server/front/request_reader.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::server {
namespace {

std::vector<std::string> text_of(const Words& words) { return {words.begin(), words.end()}; }

TEST(RequestReaderTest, RequestsComeWhole) {
  RequestReader reader({});
  Words words;
  reader.feed("*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n*1\r\n$0\r\n\r\n*1\r\n$1\r\n");
  ASSERT_TRUE(*reader.next(words));
  EXPECT_EQ(text_of(words), (std::vector<std::string>{"PING", "hi"}));
  ASSERT_TRUE(*reader.next(words));
  EXPECT_EQ(text_of(words), (std::vector<std::string>{""}));
  EXPECT_FALSE(*reader.next(words));
  EXPECT_EQ(reader.unfinished(), std::string("*1\r\n$1\r\n").size());
  reader.feed("x\r\n");
  ASSERT_TRUE(*reader.next(words));
  EXPECT_EQ(text_of(words), (std::vector<std::string>{"x"}));
  EXPECT_EQ(reader.unfinished(), 0U);
}

TEST(RequestReaderTest, BytesMayComeOneByOne) {
  const std::string wire = "*3\r\n$3\r\nHF1\r\n$6\r\nattach\r\n$1\r\n0\r\n";
  RequestReader reader({});
  Words words;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < wire.size(); ++i) {
      reader.feed(wire.substr(i, 1));
      const auto whole = reader.next(words);
      ASSERT_TRUE(whole);
      ASSERT_EQ(*whole, i + 1 == wire.size()) << i;
    }
    EXPECT_EQ(text_of(words), (std::vector<std::string>{"HF1", "attach", "0"}));
  }
}

TEST(RequestReaderTest, BytesOfAnyKindMayBeInAWord) {
  RequestReader reader({});
  Words words;
  const std::string wire("*1\r\n$5\r\n\r\n\0*$\r\n", 15);
  reader.feed(wire);
  ASSERT_TRUE(*reader.next(words));
  EXPECT_EQ(std::string(words.front()), std::string("\r\n\0*$", 5));
}

// A browser's request among them.
TEST(RequestReaderTest, WhatIsNotTheProtocolIsRefused) {
  for (const std::string wire :
       {"POST / HTTP/1.1\r\n", "Host: x\r\n", "PING\r\n", "\r\n", "*0\r\n", "*-1\r\n", "*\r\n",
        "*x\r\n", "*1\rx", "*1\r\n+OK\r\n", "*1\r\n$-1\r\n", "*1\r\n$x\r\n", "*1\r\n$1\r\nab\r\n",
        "*1\r\n*1\r\n", "*99999999999999999999\r\n", "*2000\r\n", "*1\r\n$70000\r\n"}) {
    RequestReader reader({});
    Words words;
    reader.feed(wire);
    const auto whole = reader.next(words);
    ASSERT_FALSE(whole) << wire;
    EXPECT_EQ(whole.error().code(), Errc::kInvalidArgument);
  }
}

TEST(RequestReaderTest, ARequestIsRefusedBeforeItsBytesAreKept) {
  RequestReader reader({.max_words = 4, .max_word = 100, .max_request = 150});
  Words words;
  const std::string hundred(100, 'x');
  reader.feed("*2\r\n$100\r\n" + hundred + "\r\n$100\r\n");
  EXPECT_FALSE(reader.next(words));
  RequestReader lengths({.max_words = 4, .max_word = 100, .max_request = 150});
  lengths.feed("*1\r\n$000000000000000000000000000");
  EXPECT_FALSE(lengths.next(words)) << "a length without an end takes no memory";
}

}  // namespace
}  // namespace holdfast::server
