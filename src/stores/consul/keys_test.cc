#include "src/stores/consul/keys.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/stores/consul/http.h"

namespace holdfast::stores::consul {
namespace {

const std::vector<std::string> kNames = {"orders", "orders/42", "orders%2F42", "a b", "a/c",   "ä",
                                         "\"",     "{x}",       "%",           "..x", "a/c/x", "+"};

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
       {"p/l/a", "p/l//", "q/l/a/", "p/l/a b/", "p/l/%61/", "p/l/%/", "p/v/a/"}) {
    EXPECT_FALSE(keys.lock_of(folder)) << folder;
  }
}

TEST(ConsulKeysTest, TheKeysOfAPrefixBeginAsItDoes) {
  const Keys keys("p");
  EXPECT_TRUE(keys.folder("orders/42").starts_with(keys.locks("orders/")));
  EXPECT_TRUE(keys.folder("orders/42").starts_with(keys.locks("")));
}

TEST(ConsulKeysTest, AKeyIsEncodedOnceMoreForAUrl) {
  EXPECT_EQ(encode_path("p/l/a%2Fb/"), "p/l/a%252Fb/");
  EXPECT_EQ(encode_path("a b?"), "a%20b%3F");
}

}  // namespace
}  // namespace holdfast::stores::consul
