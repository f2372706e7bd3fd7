#include "src/server/front/reply_splitter.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::server {
namespace {

const std::vector<std::string> kReplies = {
    "+OK\r\n",
    "-ERR no\r\n",
    ":-1\r\n",
    "$-1\r\n",
    "_\r\n",
    "#t\r\n",
    ",1.5\r\n",
    "$0\r\n\r\n",
    "$6\r\na\r\nb\r\n\r\n",
    "*0\r\n",
    "*-1\r\n",
    "*2\r\n:1\r\n*1\r\n$1\r\na\r\n",
    "%2\r\n+a\r\n:1\r\n+b\r\n*2\r\n:1\r\n:2\r\n",
    "~1\r\n+a\r\n",
    ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n",
    "=5\r\ntxt:a\r\n",
    "!3\r\nERR\r\n",
};

TEST(ReplySplitterTest, FindsTheEndOfEachReplyWhereverTheBytesAreCut) {
  std::string all;
  for (const std::string& each : kReplies) all += each;
  for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, std::size_t{7}, all.size()}) {
    ReplySplitter reader(1'024);
    std::vector<std::string> found;
    for (std::size_t at = 0; at < all.size(); at += piece) {
      reader.feed(std::string_view(all).substr(at, piece));
      for (;;) {
        const auto reply = reader.next();
        ASSERT_TRUE(reply) << reply.error().message();
        if (reply->empty()) break;
        found.emplace_back(*reply);
      }
    }
    EXPECT_EQ(found, kReplies) << "pieces of " << piece;
    EXPECT_EQ(reader.unfinished(), 0U);
  }
}

TEST(ReplySplitterTest, WhatIsNoReplyOrTooLongIsAnError) {
  const std::string line(200, 'x');
  for (const std::string& bad :
       {std::string("\r\n"), std::string("HTTP/1.1 200 OK\r\n"), std::string("$x\r\n"),
        std::string("$-2\r\n"), std::string("$101\r\n"), std::string("*101\r\n"),
        std::string("%51\r\n"), std::string("*60\r\n*60\r\n"), "+" + line, "+" + line + "\r\n"}) {
    ReplySplitter reader(100);
    reader.feed(bad);
    auto reply = reader.next();
    EXPECT_FALSE(reply) << bad;
  }
}

}  // namespace
}  // namespace holdfast::server
