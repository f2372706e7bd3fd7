#include "src/server/access/users.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "holdfast/server_tools.h"
#include "src/server/access/password.h"

namespace holdfast::server {
namespace {

constexpr const char* kHash =
    "password:$y$j9T$aaaaaaaaaaaa$bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

UserPtr user_of(const std::string& rights) {
  const auto users = Users::parse("app " + std::string(kHash) + ' ' + rights, "test");
  return users ? (*users)->find("app") : nullptr;
}

TEST(UsersTest, ARightIsForOneLockAndWhatPrimitivesKeepBehindItsName) {
  const UserPtr user = user_of("acquire:orders");
  EXPECT_TRUE(user->may(Right::kAcquire, "orders"));
  EXPECT_TRUE(user->may(Right::kAcquire, "orders/../queue"));
  EXPECT_FALSE(user->may(Right::kAcquire, "orders/1"));
  EXPECT_FALSE(user->may(Right::kAcquire, "orders2"));
  EXPECT_FALSE(user->may(Right::kAcquire, "order"));
  EXPECT_FALSE(user->may(Right::kAcquire, ""));
}

TEST(UsersTest, AStarAtTheEndMeansAllThatBeginSo) {
  const UserPtr user = user_of("acquire:orders/*");
  EXPECT_TRUE(user->may(Right::kAcquire, "orders/"));
  EXPECT_TRUE(user->may(Right::kAcquire, "orders/1/2"));
  EXPECT_FALSE(user->may(Right::kAcquire, "orders"));
  EXPECT_TRUE(user_of("acquire:*")->may(Right::kAcquire, "anything"));
}

TEST(UsersTest, ToAcquireOrBreakIncludesToObserveAndNothingElse) {
  const UserPtr user = user_of("acquire:a break:b observe:c");
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(user->may(Right::kObserve, name)) << name;
  EXPECT_FALSE(user->may(Right::kBreak, "a"));
  EXPECT_FALSE(user->may(Right::kAcquire, "b"));
  EXPECT_FALSE(user->may(Right::kAcquire, "c"));
  EXPECT_FALSE(user->may(Right::kBreak, "c"));
}

TEST(UsersTest, AListNeedsOneRightToAllOfIt) {
  const UserPtr user = user_of("observe:orders/* acquire:single");
  EXPECT_TRUE(user->may_list("orders/"));
  EXPECT_TRUE(user->may_list("orders/1"));
  EXPECT_FALSE(user->may_list("orders"));
  EXPECT_FALSE(user->may_list(""));
  EXPECT_FALSE(user->may_list("single"));
}

TEST(UsersTest, NamesAreWrittenWithPercentWhereTheyMust) {
  const UserPtr user = user_of("acquire:a%20b%2A acquire:c%25*");
  EXPECT_TRUE(user->may(Right::kAcquire, "a b*"));
  EXPECT_FALSE(user->may(Right::kAcquire, "a bc"));
  EXPECT_TRUE(user->may(Right::kAcquire, "c%d"));
  // A '#' begins a comment only where a word begins.
  EXPECT_TRUE(user_of("acquire:a#b")->may(Right::kAcquire, "a#b"));
  EXPECT_FALSE(user_of("acquire:a#b")->may(Right::kAcquire, "a"));
}

TEST(UsersTest, AFileHasCommentsLimitsAndSeveralPasswords) {
  std::string other = kHash;
  other.back() = 'c';
  const std::string text = "# all of them\n\n  app " + std::string(kHash) + ' ' + other +
                           " connections:20 admin rate:500 acquire:* # ours\r\nops " + kHash + '\n';
  const auto users = Users::parse(text, "test");
  ASSERT_TRUE(users) << users.error().message();
  const UserPtr app = (*users)->find("app");
  ASSERT_NE(app, nullptr);
  EXPECT_EQ(app->passwords.size(), 2U);
  EXPECT_EQ(app->connections, 20U);
  EXPECT_EQ(app->rate, 500U);
  EXPECT_EQ(app->grants.size(), 1U);
  EXPECT_TRUE(app->admin);
  EXPECT_FALSE((*users)->find("ops")->admin);
  EXPECT_NE((*users)->find("ops"), nullptr);
  EXPECT_EQ((*users)->find("ours"), nullptr);
  EXPECT_EQ((*users)->find(""), nullptr);
}

TEST(UsersTest, ABadLineIsNamedAndNoHashIsShown) {
  const std::string good = "app " + std::string(kHash);
  const std::pair<std::string, const char*> lines[] = {
      {"app acquire:*", "has no password"},
      {"app password:secret", "crypt(3)"},
      {"app password:correcthorsebattery", "never the password itself"},
      {"app password:$a$b", "crypt(3)"},
      {"\xef\xbb\xbf" + good, "byte order mark"},
      {"app password:*0aaaaaaaaaaaaaaa", "crypt(3)"},
      {good + " acquire:", "takes the name of a lock"},
      {good + " acquire:*x", "takes the name of a lock"},
      {good + " acquire:%zz", "takes the name of a lock"},
      {good + " read:*", "'read:' is not understood"},
      {good + " acquire", "takes the name of a lock"},
      {good + " nonsense", "has no ':'"},
      {good + " rate:0", "rate: takes a number"},
      {good + " connections:many", "connections: takes a number"},
      {"a@b " + std::string(kHash), "a user's name"},
      {std::string(65, 'a') + ' ' + kHash, "a user's name"},
      {good + "\n" + good, "is there already"},
      {std::string("app\0x", 5), "no text"},
      {"# nobody", "it has no user"},
      {"", "it has no user"}};
  for (const auto& [line, why] : lines) {
    const auto users = Users::parse(line, "file");
    ASSERT_FALSE(users) << line;
    EXPECT_EQ(users.error().code(), Errc::kInvalidArgument);
    EXPECT_NE(users.error().message().find(why), std::string::npos) << users.error().message();
    EXPECT_EQ(users.error().message().find("$y$"), std::string::npos);
  }
  const auto second = Users::parse(good + "\n\nb", "file");
  EXPECT_NE(second.error().message().find("file, line 3: "), std::string::npos);
}

// A cut hash fits no password, and a weak one is soon guessed.
TEST(UsersTest, OnlyWholeStrongHashesAreTakenAndTheUserIsNamed) {
  const std::string digits(86, 'x');
  const auto last = [&](std::size_t size) { return digits.substr(0, size); };
  const std::string sha512 = "$6$saltsalt$" + digits;
  for (const std::string& good :
       {hash_password("secret").value(), sha512, "$6$rounds=5000$saltsalt$" + digits,
        "$5$saltsalt$" + last(43), "$2b$12$" + last(53), "$2y$12$" + last(53),
        "$7$CU..../....2Q9obwLhin8qvQl6sisAO/$" + last(43), "$gy$j9T$aaaaaaaaaaaa$" + last(43)}) {
    EXPECT_TRUE(Users::parse("app password:" + good, "file")) << good;
  }
  for (const std::string& bad :
       {"$1$saltsalt$" + last(22), sha512.substr(0, sha512.size() - 1), sha512.substr(0, 12),
        sha512 + 'x', "$6$" + digits, "$y$j9T$aaaaaaaaaaaa$" + last(42), "$y$" + last(43),
        "$2b$12$" + last(52), "$md5$saltsalt$$" + last(22), "$sha1$40000$saltsalt$" + last(28),
        "$3$$" + last(32), "$6$saltsalt$" + last(85) + '!', "$6$rounds=1000$saltsalt$" + digits,
        "$6$rounds=999999999$saltsalt$" + digits, "$5$rounds=1000001$saltsalt$" + last(43),
        "$2b$04$" + last(53), "$2b$31$" + last(53), "$y$jFT$aaaaaaaaaaaa$" + last(43)}) {
    const auto users = Users::parse("# ours\napp password:" + bad, "file");
    ASSERT_FALSE(users) << bad;
    EXPECT_TRUE(users.error().message().starts_with("file, line 2: user 'app': password: takes a "))
        << users.error().message();
    EXPECT_NE(users.error().message().find("SHA-512"), std::string::npos);
    EXPECT_EQ(users.error().message().find(bad), std::string::npos);
  }
}

TEST(UsersTest, AFileThatOthersCanReadIsTold) {
  const std::string path = "users_test." + std::to_string(::getpid());
  std::ofstream(path) << "app " << kHash << " acquire:*\n";
  ::chmod(path.c_str(), 0640);
  const auto kept = Users::read(path);
  ASSERT_TRUE(kept);
  EXPECT_EQ((*kept)->warning(), "");
  ::chmod(path.c_str(), 0644);
  const auto open = Users::read(path);
  ASSERT_TRUE(open);
  EXPECT_NE((*open)->warning().find("chmod 640"), std::string::npos);
  EXPECT_NE((*open)->find("app"), nullptr);
  std::remove(path.c_str());
  const auto none = Users::read(path);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message().find(path), std::string::npos);
  EXPECT_NE(Users::read("/").error().message().find("is a folder"), std::string::npos);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(Users::read(path).error().message().find("plain file"), std::string::npos);
  std::remove(path.c_str());
}

TEST(PasswordTest, AHashFitsItsPasswordAndNoOther) {
  const auto hash = hash_password("correct horse");
  ASSERT_TRUE(hash);
  EXPECT_TRUE(matches("correct horse", *hash));
  EXPECT_FALSE(matches("correct horsf", *hash));
  EXPECT_FALSE(matches("", *hash));
  EXPECT_FALSE(matches(std::string("correct horse\0", 14), *hash));
  EXPECT_NE(*hash, *hash_password("correct horse")) << "each has its own salt";
  // As `openssl passwd -6 -salt saltsalt secret` prints it.
  EXPECT_TRUE(matches("secret",
                      "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDe"
                      "hy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1"));
}

TEST(PasswordTest, WhatCannotBeHashedIsRefused) {
  EXPECT_FALSE(hash_password(""));
  EXPECT_FALSE(hash_password(std::string("a\0b", 3)));
  EXPECT_FALSE(hash_password(std::string(512, 'a')));
  EXPECT_FALSE(matches("a", "no hash at all"));
  EXPECT_FALSE(matches("a", "*0"));
  EXPECT_FALSE(matches("*0", "*0"));
}

}  // namespace
}  // namespace holdfast::server
