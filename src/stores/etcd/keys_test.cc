#include "src/stores/etcd/keys.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace holdfast::stores::etcd {
namespace {

TEST(EtcdKeysTest, ALockHasAFolderOfItsOwn) {
  const Keys keys("app", /*foreign_recipe=*/false);
  EXPECT_EQ(keys.contenders("a/b"), "app/hf1/l/a%2Fb/c/");
  EXPECT_EQ(keys.record("50%"), "app/hf1/l/50%25/c");
  EXPECT_EQ(keys.folder_of("app/hf1/l/a%2Fb/c/xyz")->lock, "a/b");
  EXPECT_EQ(keys.folder_of("app/hf1/l/a%2Fb/c/xyz")->end, "app/hf1/l/a%2Fb0");
  EXPECT_FALSE(keys.folder_of("app/hf1/s/0000000000000001"));
  EXPECT_FALSE(keys.folder_of("app/hf1/l/a%2fb/c"));
}

TEST(EtcdKeysTest, TheForeignRecipeHasTheNameAsItIs) {
  EXPECT_EQ(Keys("", /*foreign_recipe=*/true).contenders("a/b"), "a/b/");
}

TEST(EtcdKeysTest, WithTheRecipeNoLockIsAmongKeysOfOurs) {
  const Keys keys("team", /*foreign_recipe=*/true);
  for (const char* name : {"hf1", "hf1/s", "hf1/", "a/hf1/k", "a/hf1"}) {
    const auto good = keys.check_name(name);
    ASSERT_FALSE(good) << name;
    EXPECT_EQ(good.error().code(), Errc::kInvalidArgument);
  }
  for (const char* name : {"hf1s", "a/hf", "ahf1/b", "hf10", "a"}) {
    EXPECT_TRUE(keys.check_name(name)) << name;
  }
  EXPECT_FALSE(Keys("hf1", /*foreign_recipe=*/true).check_name("l/a/c"));
  EXPECT_TRUE(Keys("team", /*foreign_recipe=*/false).check_name("hf1"));
}

TEST(EtcdKeysTest, ALeaseIsReadAsItIsWritten) {
  EXPECT_EQ(lease_text(0x1234), "0000000000001234");
  EXPECT_EQ(parse_lease("7fffffffffffffff"), INT64_MAX);
  EXPECT_FALSE(parse_lease("123"));
  EXPECT_FALSE(parse_lease("000000000000123x"));
}

RC_GTEST_PROP(EtcdKeysTest, NoTwoNamesMeetAndEachIsFoundAgain,
              (const std::string& a, const std::string& b)) {
  RC_PRE(!a.empty() && !b.empty());
  const Keys keys("", /*foreign_recipe=*/false);
  RC_ASSERT(keys.folder_of(keys.record(a))->lock == a);
  RC_ASSERT((keys.contenders(a) == keys.contenders(b)) == (a == b));
  if (a != b) RC_ASSERT(!keys.contenders(a).starts_with(keys.contenders(b)));
  // A listing of a name's beginning finds every name that begins so.
  RC_ASSERT(keys.record(a + b).starts_with(keys.folders(a)));
}

}  // namespace
}  // namespace holdfast::stores::etcd
