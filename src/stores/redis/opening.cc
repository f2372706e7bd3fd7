#include "src/stores/redis/opening.h"

#include <string>
#include <utility>

#include "src/stores/redis/url.h"

namespace holdfast::stores::redis {

Result<Opening> read_url(port::StoreUrl url, const port::StoreContext& context) {
  const auto recipe = take_recipe_options(url);
  if (!recipe) return recipe.error();
  auto address = parse_redis_url(url);
  if (!address) return address.error();
  if (auto known = port::reject_unknown_options(url, "redis"); !known) return known.error();
  if (auto fits = check_recipe(*recipe, *address); !fits) return fits.error();
  std::shared_ptr<SentinelPrimary> sentinels;
  if (!address->sentinels.empty()) {
    auto made = SentinelPrimary::make(
        *context.io, *address,
        [listener = context.listener](const std::string& line) { listener->on_alarm(line); });
    if (!made) return made.error();
    sentinels = *std::move(made);
  }
  auto remote = Remote::make(*std::move(address), sentinels);
  if (!remote) return remote.error();
  return Opening{*std::move(remote), std::move(sentinels), *recipe};
}

}  // namespace holdfast::stores::redis
