#include "src/server/sharing.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace holdfast::server {
namespace {

using Counted = std::pair<std::string, std::size_t>;

bool leads_fewer(const Counted& one, const Counted& other) {
  return std::pair(one.second, one.first) < std::pair(other.second, other.first);
}

}  // namespace

Sharing::Plan Sharing::plan(SharedShards view, base::BootInstant now) {
  if (std::find(view.servers.begin(), view.servers.end(), self_) == view.servers.end()) {
    view.servers.push_back(self_);  // Its entry on the list is still to come.
  }
  std::sort(view.servers.begin(), view.servers.end());
  note_returns(view);
  if (view != seen_) {
    seen_ = std::move(view);
    same_since_ = now;
  }
  const std::size_t shards = seen_.leaders.size();
  Plan plan{std::vector<bool>(shards), std::vector<bool>(shards)};
  plan_takes(plan, now);
  if (yields_until_ && (now >= *yields_until_ || seen_.servers.size() == 1)) yields_until_.reset();
  if (yields_until_) {
    plan_to_yield(plan, now);
    return plan;
  }
  if (now - same_since_ >= times_.settled) plan_gives(plan);
  return plan;
}

// A server may be unable to lead what it is given: it may be of an older version.
void Sharing::note_returns(const SharedShards& view) {
  const std::size_t shards = view.leaders.size();
  if (view.servers != seen_.servers || given_.size() != shards) {
    given_.assign(shards, false);
    came_back_.assign(shards, false);
    return;
  }
  for (std::size_t shard = 0; shard < shards; ++shard) {
    const std::string& leader = view.leaders[shard];
    if (leader.empty() || leader == seen_.leaders[shard]) continue;
    if (leader == self_ && given_[shard]) came_back_[shard] = true;
    given_[shard] = false;
  }
}

std::vector<Counted> Sharing::counts() const {
  std::vector<Counted> counted;
  for (const std::string& each : seen_.servers) {
    const auto led = std::count(seen_.leaders.begin(), seen_.leaders.end(), each);
    counted.emplace_back(each, static_cast<std::size_t>(led));
  }
  return counted;
}

// Each vacant shard is expected to go to the server that leads the fewest by then.
void Sharing::plan_takes(Plan& plan, base::BootInstant now) {
  vacant_since_.resize(seen_.leaders.size());
  auto counted = counts();
  for (std::size_t shard = 0; shard < seen_.leaders.size(); ++shard) {
    auto& since = vacant_since_[shard];
    if (!seen_.leaders[shard].empty()) {
      since.reset();
      continue;
    }
    if (!since) since = now;
    std::sort(counted.begin(), counted.end(), leads_fewer);
    const auto own = std::find_if(counted.begin(), counted.end(),
                                  [&](const Counted& each) { return each.first == self_; });
    plan.take[shard] = now - *since >= times_.turn * (own - counted.begin());
    ++counted.front().second;
  }
}

// It counts from the last look that saw this server lead.
void Sharing::plan_to_yield(Plan& plan, base::BootInstant now) {
  for (std::size_t shard = 0; shard < seen_.leaders.size(); ++shard) {
    plan.take[shard] = false;
    plan.give[shard] = seen_.leaders[shard] == self_;
    if (plan.give[shard]) step_down(now);
  }
}

// All servers compute the same moves, and each makes its own.
void Sharing::plan_gives(Plan& plan) {
  auto counted = counts();
  for (;;) {
    std::sort(counted.begin(), counted.end(), leads_fewer);
    Counted& fewest = counted.front();
    Counted& most = counted.back();
    if (most.second < fewest.second + 2) return;
    --most.second;
    ++fewest.second;
    if (most.first != self_) continue;
    for (std::size_t shard = seen_.leaders.size(); shard-- > 0;) {
      if (seen_.leaders[shard] != self_ || plan.give[shard] || came_back_[shard]) continue;
      plan.give[shard] = given_[shard] = true;
      break;
    }
  }
}

}  // namespace holdfast::server
