#include "src/stores/redis/url.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace holdfast::stores::redis {
namespace {

using namespace std::chrono_literals;

Result<RedisAddress> parse(const std::string& text) {
  auto url = port::StoreUrl::parse(text);
  EXPECT_TRUE(url) << text;
  return parse_redis_url(*url);
}

RedisAddress good(const std::string& text) {
  auto address = parse(text);
  if (address) return *address;
  ADD_FAILURE() << text << ": " << address.error().message();
  return {};
}

class RedisUrlTest : public testing::Test {
 protected:
  void SetUp() override { ::unsetenv("HOLDFAST_REDIS_PASSWORD"); }
  void TearDown() override { ::unsetenv("HOLDFAST_REDIS_PASSWORD"); }
};

TEST_F(RedisUrlTest, NamesSentinelsWithALoginOfTheirOwn) {
  const RedisAddress bare = good("redis+sentinel://s1,[::1]:27000/2?primary=orders");
  ASSERT_EQ(bare.sentinels.size(), 2U);
  EXPECT_EQ(bare.sentinels[0].port, 26379);
  EXPECT_EQ(bare.sentinels[1].host, "::1");
  EXPECT_EQ(bare.primary, "orders");
  EXPECT_EQ(bare.db, 2U);
  EXPECT_EQ(bare.display(), "redis+sentinel://s1:26379,[::1]:27000/2?primary=orders");

  const RedisAddress both =
      good("rediss+sentinel://me:secret@s1?primary=m&tls_ca=/ca&tls_cert=/c&tls_key=/k&"
           "sentinel_user=you&sentinel_password=other&sentinel_tls_name=s.example");
  EXPECT_EQ(both.password, "secret");
  EXPECT_EQ(both.sentinels[0].user, "you");
  EXPECT_EQ(both.sentinels[0].password, "other");
  EXPECT_TRUE(both.tls);
  EXPECT_TRUE(both.sentinels[0].tls);
  EXPECT_EQ(both.sentinels[0].tls_ca, "/ca");
  EXPECT_EQ(both.sentinels[0].tls_key, "/k");
  EXPECT_EQ(both.sentinels[0].tls_name, "s.example");
  EXPECT_EQ(both.display(), "rediss+sentinel://s1:26379?primary=m");
}

// Nothing of the servers' log-in or encryption is a default that could be taken back silently.
TEST_F(RedisUrlTest, SentinelsShareNeitherPasswordNorALackOfTls) {
  EXPECT_EQ(good("redis+sentinel://me:secret@s1?primary=m").sentinels[0].password, std::nullopt);
  const RedisAddress only_sentinels =
      good("redis+sentinel://s1?primary=m&sentinel_tls=yes&sentinel_tls_ca=/ca");
  EXPECT_FALSE(only_sentinels.tls);
  EXPECT_TRUE(only_sentinels.sentinels[0].tls);
  EXPECT_FALSE(good("rediss+sentinel://s1?primary=m&sentinel_tls=no").sentinels[0].tls);
  for (const char* refused :
       {"redis+sentinel://s1", "redis+sentinel://s1?primary=", "redis+sentinel://s1,?primary=m",
        "redis+sentinel://s1?primary=m&sentinel_tls_ca=/ca",
        "redis+sentinel://s1?primary=m&sentinel_tls=maybe",
        "redis+sentinel://s1?primary=m&sentinel_db=1", "redis+sentinel:s1?primary=m"}) {
    EXPECT_FALSE(parse(refused)) << refused;
  }
}

TEST_F(RedisUrlTest, NamesHostPortAndDatabase) {
  const RedisAddress bare = good("redis://");
  EXPECT_EQ(bare.host, "127.0.0.1");
  EXPECT_EQ(bare.port, 6379);
  EXPECT_EQ(bare.db, 0U);
  EXPECT_FALSE(bare.tls);
  EXPECT_FALSE(bare.password);
  const RedisAddress full = good("redis://db.example:7000/3");
  EXPECT_EQ(full.host, "db.example");
  EXPECT_EQ(full.port, 7000);
  EXPECT_EQ(full.db, 3U);
  EXPECT_EQ(full.display(), "redis://db.example:7000/3");
  EXPECT_EQ(good("redis://h/").db, 0U);
  EXPECT_EQ(good("redis://h?db=5").db, 5U);
}

TEST_F(RedisUrlTest, TakesAnIpv6AddressInBrackets) {
  EXPECT_EQ(good("redis://[::1]").host, "::1");
  EXPECT_EQ(good("redis://u:p@[fe80::2]:6380").port, 6380);
  EXPECT_EQ(good("redis://[::1]:6380/2").display(), "redis://[::1]:6380/2");
}

TEST_F(RedisUrlTest, TakesASocketsPath) {
  const RedisAddress address = good("redis+unix:///run/redis.sock?db=2&user=u");
  EXPECT_EQ(address.socket_path, "/run/redis.sock");
  EXPECT_EQ(address.db, 2U);
  EXPECT_EQ(address.user, "u");
  EXPECT_EQ(address.display(), "redis+unix:///run/redis.sock?db=2");
  EXPECT_EQ(*good("redis+unix://:secret@/run/redis.sock").password, "secret");
}

TEST_F(RedisUrlTest, DecodesUserAndPassword) {
  const RedisAddress address = good("redis://al%40ice:p%3A%2F@h");
  EXPECT_EQ(address.user, "al@ice");
  EXPECT_EQ(*address.password, "p:/");
  EXPECT_EQ(good("redis://:only@h").user, "");
  EXPECT_EQ(*good("redis://:only@h").password, "only");
  EXPECT_EQ(*good("redis://a:b@c@h").password, "b@c");
}

TEST_F(RedisUrlTest, ReadsThePasswordFromWhereItIsKept) {
  char path[] = "/tmp/holdfast-url-test-XXXXXX";
  const int fd = ::mkstemp(path);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::write(fd, "s3cret\r\nnot this\n", 17), 17);
  EXPECT_EQ(*good(std::string("redis://h?password_file=") + path).password, "s3cret");
  ASSERT_EQ(::lseek(fd, 0, SEEK_SET), 0);
  EXPECT_EQ(*good("redis://h?password_fd=" + std::to_string(fd)).password, "s3cret");
  ::close(fd);
  ::unlink(path);
  ::setenv("HOLDFAST_TEST_SECRET", "of the environment", 1);
  EXPECT_EQ(*good("redis://h?password_env=HOLDFAST_TEST_SECRET").password, "of the environment");
  ::unsetenv("HOLDFAST_TEST_SECRET");
  ::setenv("HOLDFAST_REDIS_PASSWORD", "fallback", 1);
  EXPECT_EQ(*good("redis://h").password, "fallback");
  EXPECT_EQ(*good("redis://alice@h").password, "fallback");
  EXPECT_EQ(*good("redis://:own@h").password, "own");
}

TEST_F(RedisUrlTest, TakesTheOptionsOfTls) {
  const RedisAddress address =
      good("rediss://h?tls_ca=/ca.pem&tls_cert=/c.pem&tls_key=/k.pem&tls_name=other");
  EXPECT_TRUE(address.tls);
  EXPECT_EQ(address.tls_ca, "/ca.pem");
  EXPECT_EQ(address.tls_cert, "/c.pem");
  EXPECT_EQ(address.tls_key, "/k.pem");
  EXPECT_EQ(address.tls_name, "other");
  EXPECT_EQ(good("rediss://h?tls_cert=/both.pem").tls_key, "/both.pem");
}

TEST_F(RedisUrlTest, LeavesWhatItDoesNotKnow) {
  auto url = port::StoreUrl::parse("redis://h/1?ns=app&connect_timeout=250ms&colour=blue");
  ASSERT_TRUE(url);
  auto address = parse_redis_url(*url);
  ASSERT_TRUE(address);
  EXPECT_EQ(address->connect_timeout, 250ms);
  ASSERT_EQ(url->options.size(), 2U);
  EXPECT_EQ(url->options[0].first, "ns");
  EXPECT_EQ(url->options[1].first, "colour");
  EXPECT_EQ(url->path, "");
}

TEST_F(RedisUrlTest, NamesNodesOfACluster) {
  const RedisAddress address = good("redis+cluster://u:p@a:7001,b,[::1]:7003?replicas=1");
  ASSERT_EQ(address.nodes.size(), 3U);
  EXPECT_EQ(address.nodes[0].text(), "a:7001");
  EXPECT_EQ(address.nodes[1].text(), "b:6379");
  EXPECT_EQ(address.nodes[2].text(), "[::1]:7003");
  EXPECT_EQ(address.user, "u");
  EXPECT_EQ(address.replicas, 1U);
  EXPECT_FALSE(address.tls);
  EXPECT_EQ(address.display(), "redis+cluster://a:7001,b:6379,[::1]:7003");
  const RedisAddress secure = good("rediss+cluster://a?tls_ca=/ca.pem");
  EXPECT_TRUE(secure.tls);
  EXPECT_EQ(secure.display(), "rediss+cluster://a:6379");
  EXPECT_TRUE(good("redis://a").nodes.empty());
}

TEST_F(RedisUrlTest, RefusesWhatCannotBeMeant) {
  for (const char* text : {"redis://h:0",
                           "redis://h:65536",
                           "redis://h:",
                           "redis://h:x",
                           "redis://h:6379x",
                           "redis://::1",
                           "redis://[::1",
                           "redis://[::1]6379",
                           "redis://a,b",
                           "redis://a b",
                           "redis://h/x",
                           "redis://h/-1",
                           "redis://h/1/2",
                           "redis://h/1?db=1",
                           "redis+unix://h/x.sock",
                           "redis+unix://",
                           "redis+unix:relative",
                           "redis://u:p@h?password=q",
                           "redis://u@h?user=v",
                           "redis://h?password=a&password_env=B",
                           "redis://h?password_env=HOLDFAST_NOT_THERE",
                           "redis://h?password_file=/nowhere/at/all",
                           "redis://h?password_fd=x",
                           "redis://h?password_fd=9999",
                           "redis://h?tls_ca=/x",
                           "rediss://h?tls_key=/k",
                           "rediss://h?tls_ca=",
                           "redis://h?connect_timeout=0",
                           "redis://h?connect_timeout=soon",
                           "redis+cluster://a,",
                           "redis+cluster://a,a",
                           "redis+cluster://a/1",
                           "redis+cluster://a?db=1",
                           "redis+cluster://a?tls_ca=/x",
                           "redis://u%zz@h"}) {
    const auto address = parse(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().code(), Errc::kInvalidArgument) << text;
  }
}

TEST_F(RedisUrlTest, KeepsSecretsOutOfItsMessages) {
  for (const char* text : {"redis://hunter2:hunter2@h:0", "redis://hunter2:hunter2@h/x",
                           "redis://:hunter2@h?password=hunter2", "redis://hunter2@h?user=hunter2",
                           "redis://hunter2:hunter2@a b"}) {
    const auto address = parse(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().message().find("hunter2"), std::string::npos) << text;
  }
  EXPECT_EQ(good("redis://hunter2:hunter2@h/2").display(), "redis://h:6379/2");
}

}  // namespace
}  // namespace holdfast::stores::redis
