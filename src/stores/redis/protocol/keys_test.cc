#include "src/stores/redis/protocol/keys.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace holdfast::stores::redis {
namespace {

TEST(RedisKeysTest, ANameWithBracesStaysInOneSlot) {
  EXPECT_EQ(record_key("orders/{42}"), "hf1:{orders/%7B42%7D}");
}

TEST(RedisKeysTest, EveryNameComesBackFromItsKeyAndNoTwoShareOne) {
  std::set<std::string> keys;
  const std::string alphabet = "a%{}:/*\\[2B5D7\"' ";
  for (const char first : alphabet) {
    for (const char second : alphabet) {
      for (const char third : alphabet) {
        const std::string name{first, second, third};
        const std::string key = record_key(name);
        EXPECT_EQ(name_of_key(key), name) << key;
        EXPECT_TRUE(keys.insert(key).second) << key;
      }
    }
  }
}

TEST(RedisKeysTest, OtherKeysAreNotTakenForRecords) {
  for (const char* key : {"", "hf1:", "hf1:{}", "hf1:{a", "hf1:{a}:t", "hf2:{a}", "hf1:{a%2}",
                          "hf1:{a%zz}", "hf1:{a{b}", "{a}"}) {
    EXPECT_EQ(name_of_key(key), std::nullopt) << key;
  }
}

TEST(RedisKeysTest, APatternTakesNothingOfTheNameForAWildcard) {
  EXPECT_EQ(record_pattern("a*[x]?{"), R"(hf1:{a\*\[x\]\?%7B*})");
}

}  // namespace
}  // namespace holdfast::stores::redis
