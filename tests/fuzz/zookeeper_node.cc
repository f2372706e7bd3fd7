// Names of nodes in ZooKeeper, of whoever: of locks, and of contenders in each recipe.

#include "src/stores/zookeeper/layout.h"
#include "src/stores/zookeeper/nodes.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::zookeeper_node {

using namespace stores::zookeeper;

void run(std::string_view input) {
  const std::string node = encode_name(input);
  if (!input.empty()) demand(decode_name(node) == input, "a name is read back equal");
  demand(node.find('/') == node.npos && !node.starts_with('.'), "a name is one node");
  if (const auto name = decode_name(input)) {
    demand(encode_name(*name) == input, "no two nodes have one name");
  }

  for (const Recipe recipe :
       {Recipe::kOwn, Recipe::kCurator, Recipe::kCuratorReadWrite, Recipe::kKazoo}) {
    ZookeeperAddress address;
    address.recipe = recipe;
    const auto layout = make_layout(address);
    const auto place = layout->parse(input);
    if (!place) continue;
    demand(!layout->refuse_key(place->key), "a recipe knows what it reads");
    if (recipe != Recipe::kOwn) continue;
    const auto again = layout->parse(layout->node(*place));
    demand(again && again->key == place->key && again->order == place->order,
           "a contender is read back equal");
  }
}

}  // namespace holdfast::fuzz::zookeeper_node

HOLDFAST_FUZZ_TARGET(zookeeper_node)
