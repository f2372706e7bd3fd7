#include "src/stores/redis/protocol/reply.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hiredis/hiredis.h>

namespace holdfast::stores::redis {
namespace {

using Kind = Reply::Kind;

Reply read_one(std::string_view bytes) {
  ReplyReader reader;
  EXPECT_TRUE(reader.feed(bytes));
  auto reply = reader.next();
  if (reply && *reply) return **reply;
  ADD_FAILURE() << "no reply in " << bytes;
  return {};
}

TEST(RedisReplyTest, EveryKindIsRead) {
  EXPECT_EQ(read_one("+OK\r\n").kind, Kind::kStatus);
  EXPECT_EQ(read_one("+OK\r\n").text, "OK");
  EXPECT_EQ(read_one(":-42\r\n").kind, Kind::kInteger);
  EXPECT_EQ(read_one(":-42\r\n").integer, -42);
  EXPECT_EQ(read_one(std::string_view("$3\r\na\0b\r\n", 9)).text, std::string("a\0b", 3));
  EXPECT_EQ(read_one("$-1\r\n").kind, Kind::kNil);
  EXPECT_EQ(read_one("*-1\r\n").kind, Kind::kNil);
  EXPECT_EQ(read_one("*0\r\n").kind, Kind::kArray);
  const Reply error = read_one("-NOSCRIPT No matching script\r\n");
  EXPECT_TRUE(error.is_error());
  EXPECT_EQ(error.error_word(), "NOSCRIPT");
  EXPECT_EQ(read_one("-NOSCRIPT\r\n").error_word(), "NOSCRIPT");
}

TEST(RedisReplyTest, ArraysNest) {
  const Reply reply = read_one("*3\r\n*2\r\n:1\r\n*1\r\n+deep\r\n$1\r\na\r\n*-1\r\n");
  ASSERT_EQ(reply.items.size(), 3U);
  ASSERT_EQ(reply.items[0].items.size(), 2U);
  EXPECT_EQ(reply.items[0].items[0].integer, 1);
  EXPECT_EQ(reply.items[0].items[1].items[0].text, "deep");
  EXPECT_EQ(reply.items[1].text, "a");
  EXPECT_EQ(reply.items[2].kind, Kind::kNil);
}

TEST(RedisReplyTest, BytesMayComeOneByOne) {
  const std::string bytes = "*2\r\n*3\r\n$2\r\nab\r\n:7\r\n$-1\r\n-ERR x\r\n+OK\r\n";
  ReplyReader reader;
  std::vector<Reply> replies;
  for (const char c : bytes) {
    ASSERT_TRUE(reader.feed({&c, 1}));
    auto reply = reader.next();
    ASSERT_TRUE(reply);
    if (*reply) replies.push_back(**std::move(reply));
  }
  ASSERT_EQ(replies.size(), 2U);
  EXPECT_EQ(replies[0].items[0].items[0].text, "ab");
  EXPECT_EQ(replies[0].items[0].items[1].integer, 7);
  EXPECT_TRUE(replies[0].items[1].is_error());
  EXPECT_EQ(replies[1].text, "OK");
}

// Whether the bytes are refused, by feed() or next().
bool refused(std::string_view bytes, ReplyLimits limits = {}) {
  ReplyReader reader(limits);
  auto fed = reader.feed(bytes);
  if (!fed) return fed.error().code() == Errc::kCorruptState;
  while (true) {
    auto reply = reader.next();
    if (!reply) return reply.error().code() == Errc::kCorruptState;
    if (!*reply) return false;
  }
}

TEST(RedisReplyTest, ForeignBytesAreRefused) {
  EXPECT_TRUE(refused("HTTP/1.1 400 Bad Request\r\n\r\n"));
  EXPECT_TRUE(refused("%2\r\n+a\r\n+b\r\n"));  // RESP3, which nobody asked for.
  std::string deep;
  for (int i = 0; i < 20; ++i) deep += "*1\r\n";
  EXPECT_TRUE(refused(deep + ":1\r\n"));
}

TEST(RedisReplyTest, LengthsAreBoundedBeforeMemoryIsTaken) {
  EXPECT_TRUE(refused("*2000000000\r\n"));
  const std::size_t eight = 8 * 3 * sizeof(Reply) + 100;
  EXPECT_TRUE(refused("*9\r\n", {.max_memory = eight}));
  // The bound is on all elements together.
  EXPECT_TRUE(refused("*2\r\n*3\r\n:1\r\n:2\r\n:3\r\n*3\r\n:1\r\n:2\r\n:3\r\n", {eight}));
  EXPECT_FALSE(refused("*2\r\n*2\r\n:1\r\n:2\r\n*2\r\n:1\r\n:2\r\n", {eight}));
  // And begins anew with each reply.
  EXPECT_FALSE(refused("*2\r\n:1\r\n:2\r\n*2\r\n:1\r\n:2\r\n", {eight / 2}));
  EXPECT_TRUE(refused("$1000\r\n" + std::string(200, 'x'), {.max_memory = 100}));
}

TEST(RedisReplyTest, ElementsAndTheirTextsAreBoundedTogether) {
  const std::string element = "$8000\r\n" + std::string(8000, 'x') + "\r\n";
  ReplyReader reader;
  ASSERT_TRUE(reader.feed("*100000\r\n"));
  std::size_t fed = 0;
  bool taken = true;
  for (; taken && fed < 2 * port::kMostAnswerMemory; fed += element.size()) {
    taken = reader.feed(element).has_value() && reader.next().has_value();
  }
  EXPECT_FALSE(taken);
  EXPECT_LT(fed, port::kMostAnswerMemory);
  EXPECT_GT(fed, port::kMostAnswerMemory / 2);
}

TEST(RedisReplyTest, AReaderThatFailedStaysSo) {
  ReplyReader reader;
  ASSERT_TRUE(reader.feed("?\r\n"));
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.feed("+OK\r\n"));
  EXPECT_FALSE(reader.next());
}

TEST(RedisReplyTest, UnfinishedRepliesAreFreed) {
  ReplyReader reader;
  ASSERT_TRUE(reader.feed("*3\r\n*2\r\n$40\r\n" + std::string(40, 'x') + "\r\n"));
  auto reply = reader.next();
  ASSERT_TRUE(reply);
  EXPECT_FALSE(*reply);
}

// hiredis' formatter says what is right.
TEST(RedisReplyTest, RequestsAreWrittenAsHiredisWritesThem) {
  const std::vector<std::vector<std::string>> requests = {
      {"PING"},
      {"SET", "k", ""},
      {"EVALSHA", std::string(40, 'a'), "1", "{a}b", std::string("\0\r\n$", 4), "1000"},
      {"ECHO", std::string(100'000, 'z')},
  };
  std::string all = "before";
  std::string expected = "before";
  for (const auto& request : requests) {
    std::vector<std::string_view> args(request.begin(), request.end());
    std::vector<const char*> pointers;
    std::vector<std::size_t> sizes;
    for (const std::string& arg : request) {
      pointers.push_back(arg.data());
      sizes.push_back(arg.size());
    }
    char* formatted = nullptr;
    const int size = redisFormatCommandArgv(&formatted, static_cast<int>(request.size()),
                                            pointers.data(), sizes.data());
    ASSERT_GT(size, 0);
    expected.append(formatted, static_cast<std::size_t>(size));
    redisFreeCommand(formatted);
    append_command(all, args);
  }
  EXPECT_EQ(all, expected);
}

}  // namespace
}  // namespace holdfast::stores::redis
