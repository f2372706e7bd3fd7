#include "src/stores/zookeeper/recipes.h"

#include <gtest/gtest.h>

#include "src/stores/zookeeper/layout.h"

namespace holdfast::stores::zookeeper {
namespace {

constexpr char kUuid[] = "_c_00000000-0000-0001-0000-00000000000a-";

TEST(ZookeeperRecipesTest, NodesOfOtherLibrariesAreReadAndMade) {
  const auto curator = make_recipe(Recipe::kCurator, "");
  const auto place = curator->parse(std::string(kUuid) + "lock-0000000012");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->key, contend::key_for({1, 10}, machine::Mode::exclusive(), {}));
  EXPECT_EQ(place->order, 12U);
  EXPECT_FALSE(curator->parse("lock-0000000012"));
  EXPECT_FALSE(curator->parse(std::string(kUuid) + "lease-0000000012"));
  const auto reader =
      make_recipe(Recipe::kCuratorReadWrite, "")->parse(std::string(kUuid) + "__READ__0000000012");
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->key.shape, contend::Shape::kShared);
  for (const Recipe recipe : {Recipe::kCurator, Recipe::kCuratorReadWrite, Recipe::kKazoo}) {
    const auto layout = make_recipe(recipe, "");
    for (const std::int32_t number : {0, 12, 2147483647, -2147483647 - 1}) {
      contend::QueueEntry entry;
      entry.key = contend::key_for({1, 2}, machine::Mode::exclusive(), {});
      entry.order = static_cast<std::uint32_t>(number);
      const auto read = layout->parse(layout->node(entry));
      ASSERT_TRUE(read) << layout->node(entry);
      EXPECT_EQ(read->key, entry.key);
      EXPECT_EQ(read->order, entry.order);
    }
  }
}

TEST(ZookeeperRecipesTest, FoldersAreMadeFromAboveAndNamesArePaths) {
  const auto layout = make_recipe(Recipe::kKazoo, "/chroot");
  const std::string folder = layout->folder("a/b/c");
  EXPECT_EQ(folder, "/chroot/a/b/c");
  const auto parents = layout->parents(folder);
  ASSERT_EQ(parents.size(), 2U);
  EXPECT_EQ(parents[0].first, "/chroot/a");
  EXPECT_EQ(parents[1].first, "/chroot/a/b");
  EXPECT_TRUE(is_path("locks/orders"));
  for (const char* const name : {"/a", "a//b", "a/", "a/../b", "hf1/x", "zookeeper"}) {
    EXPECT_FALSE(is_path(name)) << name;
  }
}

}  // namespace
}  // namespace holdfast::stores::zookeeper
