#include "src/stores/consul/keys.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/stores/consul/transport/http.h"

namespace holdfast::stores::consul {
namespace {

const std::vector<std::string> kNames = {
    "orders", "orders/42", "orders%2F42", "a b", "a/c", "ä",  "\"",  "{x}", "%",
    "..x",    "a/c/x",     "+",           ".",   "..",  ".x", "%2E", "./a", "a/."};

TEST(ConsulKeysTest, NamesComeBackFromTheirFolders) {
  const Keys keys("team/locks");
  std::set<std::string> folders;
  for (const std::string& name : kNames) {
    EXPECT_EQ(keys.lock_of(keys.folder(name)), name);
    EXPECT_TRUE(folders.insert(keys.folder(name)).second) << name;
  }
}

TEST(ConsulKeysTest, NoFolderHoldsAnother) {
  const Keys keys("p");
  for (const std::string& one : kNames) {
    for (const std::string& other : kNames) {
      if (one != other) {
        EXPECT_FALSE(keys.folder(other).starts_with(keys.folder(one)));
      }
    }
  }
}

TEST(ConsulKeysTest, AFolderThatIsNotOursIsNone) {
  const Keys keys("p");
  for (const char* folder :
       {"p/l/a", "p/l//", "q/l/a/", "p/l/a b/", "p/l/%61/", "p/l/%/", "p/v/a/", "p/l/./"}) {
    EXPECT_FALSE(keys.lock_of(folder)) << folder;
  }
}

TEST(ConsulKeysTest, TheKeysOfAPrefixBeginAsItDoes) {
  const Keys keys("p");
  EXPECT_TRUE(keys.folder("orders/42").starts_with(keys.locks("orders/")));
  for (const std::string& name : kNames) {
    for (std::size_t end = 0; end <= name.size(); ++end) {
      EXPECT_TRUE(keys.folder(name).starts_with(keys.locks(name.substr(0, end)))) << name;
    }
  }
}

TEST(ConsulKeysTest, NoKeyHasASegmentThatAUrlsPathWouldLose) {
  const Keys keys("p");
  for (const std::string& name : kNames) {
    for (const std::string& key :
         {keys.folder(name), keys.record(name), keys.value(name),
          keys.contender(name, contend::key_for({1, 2}, {}, {})), keys.locks(name)}) {
      const std::string slashed = "/" + encode_path(key) + "/";
      EXPECT_EQ(slashed.find("/./"), std::string::npos) << key;
      EXPECT_EQ(slashed.find("/../"), std::string::npos) << key;
    }
  }
}

TEST(ConsulKeysTest, OtherNamesKeepTheirDots) {
  const Keys keys("p");
  EXPECT_EQ(keys.folder("."), "p/l/%2E/");
  EXPECT_EQ(keys.folder(".."), "p/l/%2E%2E/");
  EXPECT_EQ(keys.folder(".x"), "p/l/.x/");
  EXPECT_EQ(keys.folder("a/./b"), "p/l/a%2F.%2Fb/");
  EXPECT_EQ(keys.folder("v1.2"), "p/l/v1.2/");
}

TEST(ConsulKeysTest, WithTheRecipeOnePathIsOneFolderAndAnotherIsAnother) {
  const Keys root("p", "");
  const Keys a("p", "a/");
  const Keys ab("p", "a/b/");
  const Keys b("p", "b/");
  EXPECT_EQ(ab.folder("L"), "p/r/l/a%2Fb%2FL/");
  EXPECT_EQ(a.folder("b/L"), ab.folder("L"));
  EXPECT_EQ(root.folder("a/b/L"), ab.folder("L"));
  EXPECT_EQ(root.record("a/b/L"), ab.record("L"));
  EXPECT_EQ(root.value("a/b/L"), ab.value("L"));
  EXPECT_NE(a.folder("L"), b.folder("L"));
  EXPECT_NE(a.value("L"), b.value("L"));
  // Without it a lock is none of theirs.
  EXPECT_NE(root.folder("L"), Keys("p").folder("L"));
  EXPECT_FALSE(Keys("p").lock_of(root.folder("L")));
}

TEST(ConsulKeysTest, WithTheRecipeNamesComeBackWithoutThePath) {
  const Keys keys("p", "a/");
  EXPECT_EQ(keys.lock_of(keys.folder("b/L")), "b/L");
  EXPECT_TRUE(keys.folder("b/L").starts_with(keys.locks("b/")));
  EXPECT_TRUE(keys.folder("b/L").starts_with(keys.locks("")));
  EXPECT_FALSE(keys.lock_of(Keys("p", "b/").folder("L")));
  EXPECT_FALSE(keys.lock_of("p/r/l/a%2F/"));
  EXPECT_FALSE(Keys("p", "ab/").folder("L").starts_with(keys.locks("")));
}

TEST(ConsulKeysTest, AKeyIsEncodedOnceMoreForAUrl) {
  EXPECT_EQ(encode_path("p/l/a%2Fb/"), "p/l/a%252Fb/");
  EXPECT_EQ(encode_path("a b?"), "a%20b%3F");
}

}  // namespace
}  // namespace holdfast::stores::consul
