#include "src/stores/memcached/protocol/replies.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::stores::memcached {
namespace {

using Kind = Reply::Kind;

std::vector<Reply> read(std::string_view bytes, std::size_t piece = 1) {
  ReplyReader reader;
  std::vector<Reply> replies;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    reader.feed(bytes.substr(at, piece));
    while (auto reply = reader.next()) replies.push_back(*std::move(reply));
  }
  EXPECT_FALSE(reader.bad());
  return replies;
}

TEST(MemcachedRepliesTest, RepliesAreReadFromPiecesOfAnySize) {
  const std::string bytes =
      "HD c17\r\nVA 5 c18\r\na\r\nbc\r\nEN\r\nNF\r\nNS\r\nEX\r\nHD\r\nVERSION 1.6.18\r\n"
      "STAT pid 7\r\nSTAT cas_enabled yes\r\nEND\r\nSERVER_ERROR out of memory\r\n";
  for (const std::size_t piece : {1U, 2U, 7U, 500U}) {
    const auto replies = read(bytes, piece);
    ASSERT_EQ(replies.size(), 10U);
    EXPECT_EQ(replies[0].kind, Kind::kDone);
    EXPECT_EQ(replies[0].number, 17U);
    EXPECT_EQ(replies[1].kind, Kind::kValue);
    EXPECT_EQ(replies[1].number, 18U);
    EXPECT_EQ(replies[1].text, "a\r\nbc");
    EXPECT_EQ(replies[2].kind, Kind::kMissing);
    EXPECT_EQ(replies[3].kind, Kind::kMissing);
    EXPECT_EQ(replies[4].kind, Kind::kConflict);
    EXPECT_EQ(replies[5].kind, Kind::kConflict);
    EXPECT_EQ(replies[6].kind, Kind::kDone);
    EXPECT_EQ(replies[6].number, 0U);
    EXPECT_EQ(replies[7].text, "1.6.18");
    EXPECT_EQ(replies[8].kind, Kind::kText);
    EXPECT_NE(replies[8].text.find("cas_enabled yes"), std::string::npos);
    EXPECT_EQ(replies[9].kind, Kind::kRefused);
    EXPECT_EQ(replies[9].text, "SERVER_ERROR out of memory");
  }
}

TEST(MemcachedRepliesTest, WhatNoServerSendsEndsTheReading) {
  for (const std::string bytes :
       {"VA 99999999999 c1\r\n", "VA -1 c1\r\n", "VA 1 cx\r\n", "VA 1 c1\r\nabc\r\n", "hello\r\n",
        "HD cx\r\n", "STAT a\r\nHD\r\n", "\r\n", "VA\r\n"}) {
    ReplyReader reader;
    reader.feed(bytes);
    EXPECT_FALSE(reader.next()) << bytes;
    EXPECT_TRUE(reader.bad()) << bytes;
    reader.feed("HD\r\n");
    EXPECT_FALSE(reader.next()) << bytes;
  }
}

TEST(MemcachedRepliesTest, ALineWithoutAnEndIsCutOff) {
  ReplyReader reader;
  for (int i = 0; i < 100 && !reader.bad(); ++i) {
    reader.feed(std::string(100, 'x'));
    EXPECT_FALSE(reader.next());
  }
  EXPECT_TRUE(reader.bad());
}

TEST(MemcachedRepliesTest, AKeyHasNoSpaceAndFitsAndIsTheNamesOwn) {
  std::set<std::string> keys;
  for (const std::string& name :
       {std::string("a"), std::string("b"), std::string("a b"), std::string("a\tb"),
        std::string("\xc3\xa4"), std::string(256, 'x'), std::string(255, 'x'), std::string("ab")}) {
    const std::string key = key_of(name);
    EXPECT_LE(key.size(), 250U);
    EXPECT_EQ(key.find_first_of(" \t\r\n"), std::string::npos);
    EXPECT_TRUE(keys.insert(key).second);
  }
  // The same in all versions.
  EXPECT_EQ(key_of("a"), "holdfast/1/d228cb696f1a8caf78912b704e4a8964");
}

TEST(MemcachedRepliesTest, RequestsAreAsTheProtocolHasThem) {
  EXPECT_EQ(get_request("k", true), "mg k c v\r\n");
  EXPECT_EQ(get_request("k", false), "mg k c\r\n");
  EXPECT_EQ(set_request("k", "abc", 0, 9), "ms k 3 c T9 ME\r\nabc\r\n");
  EXPECT_EQ(set_request("k", "abc", 7, 0), "ms k 3 c T0 C7\r\nabc\r\n");
  EXPECT_EQ(delete_request("k", 7), "md k C7\r\n");
}

}  // namespace
}  // namespace holdfast::stores::memcached
