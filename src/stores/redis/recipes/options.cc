#include "src/stores/redis/recipes/options.h"

#include <utility>

#include "src/recipes/recipe_store.h"

namespace holdfast::stores::redis {

Result<RecipeOptions> take_recipe_options(port::StoreUrl& url) {
  const auto given = port::UrlOptions::take(url, "redis", kRecipeOptions);
  if (!given) return given.error();
  RecipeOptions options;
  const std::string recipe = given->text("recipe");
  if (recipe == "redisson") options.recipe = Recipe::kRedisson;
  if (recipe == "setnx") options.recipe = Recipe::kSetNx;
  for (const char* const name : {"session", "prefix"}) {
    if (!given->has(name) || options.recipe != Recipe::kNone) continue;
    return Error(Errc::kInvalidArgument, std::string("redis URL: ") + name + " needs recipe=");
  }
  options.session = given->time("session");
  options.prefix = given->text("prefix");
  return options;
}

Result<void> check_recipe(const RecipeOptions& options, const RedisAddress& address) {
  if (options.recipe == Recipe::kNone) return {};
  if (address.replicas > 0) {
    return Error(Errc::kInvalidArgument,
                 "redis URL: with recipe= no replicas confirm anything: leave replicas= out");
  }
  if (!address.sentinels.empty()) {
    return Error(Errc::kInvalidArgument,
                 "redis URL: recipe= does not follow Sentinels yet: name the primary itself");
  }
  if (!address.nodes.empty()) {
    return Error(Errc::kInvalidArgument,
                 "redis URL: recipe= does not follow a cluster: name a single server");
  }
  return {};
}

Guarantees recipe_guarantees(const RecipeOptions& options) {
  Guarantees result = recipes::guarantees(
      "redis", "all programs that lock the same keys of one server by one form", options.session);
  result.faults = {
      {"holder is killed", Guarantee::kYes, Guarantee::kNo, "its key ends with the lease"},
      {"holder is paused, or client and server are parted", Guarantee::kYes, Guarantee::kNo,
       "the holder's own deadline passes first"},
      {"a take arrives after its client gave up", Guarantee::kYes, Guarantee::kNo,
       "nothing remembers it, so it blocks everybody for one lease; nobody holds by it"},
      {"another program or an operator deletes the key (forceUnlock, DEL)", Guarantee::kDeclared,
       Guarantee::kNo, "the holder is told by its next renewal, after a third of the lease"},
      {"server restarts with older data, or none", Guarantee::kDeclared, Guarantee::kNo,
       "grants since the last save are forgotten"},
      {"replica is promoted", Guarantee::kDeclared, Guarantee::kNo,
       "replication is asynchronous: grants that were not replicated are forgotten"},
      {"server's wall clock jumps", Guarantee::kDeclared, Guarantee::kNo,
       "ahead: leases end early; back: they last longer"},
      {"memory is full and the policy evicts", Guarantee::kDeclared, Guarantee::kNo,
       "an evicted lock is free; set maxmemory-policy noeviction"},
      {"client's wall clock jumps, or its host is suspended", Guarantee::kYes, Guarantee::kNo,
       "deadlines count on boot time"},
  };
  return result;
}

}  // namespace holdfast::stores::redis
