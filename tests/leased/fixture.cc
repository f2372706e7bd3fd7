#include "tests/leased/fixture.h"

#include <algorithm>

#include "holdfast/client.h"
#include "tests/support/eventually.h"

namespace holdfast::ids {

using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

Decoded last_of(const holdfast::testing::Giver& giver) {
  const std::vector<std::uint64_t> ids = giver.ids();
  EXPECT_FALSE(ids.empty()) << giver.log();
  return ids.empty() ? Decoded() : *spec_of(1).layout.decode(Id::of(ids.back()));
}

std::set<std::uint64_t> workers_of(const holdfast::testing::Givers& givers) {
  std::set<std::uint64_t> workers;
  for (const holdfast::testing::Giver* giver : givers) workers.insert(last_of(*giver).worker);
  return workers;
}

AssertionResult become_free(const std::string& url, const std::string& name,
                            const std::set<std::uint64_t>& workers) {
  const auto client = Client::connect(url);
  if (!client) return AssertionFailure() << client.error();
  std::string why;
  const auto is_free = [&](std::uint64_t worker) {
    const auto lock = client->inspect("holdfast-ids/" + name + "/" + std::to_string(worker));
    if (lock && (!*lock || (*lock)->holders.empty())) return true;
    why = std::to_string(worker) + ": " + (lock ? "held" : lock.error().message());
    return false;
  };
  if (support::eventually([&] { return std::ranges::all_of(workers, is_free); })) {
    return AssertionSuccess();
  }
  return AssertionFailure() << "worker " << why;
}

void LeasedTest::SetUp() {
  if (const std::string why = holdfast::testing::no_place_because(); !why.empty()) {
    GTEST_SKIP() << why;
  }
  place_ = holdfast::testing::make_place(GetParam());
}

std::string LeasedTest::short_leases() const {
  const auto client = Client::connect(place_->url());
  const bool by_session = client && client->guarantees().bound_to_client;
  return place_->url(by_session ? "session=2s" : "");
}

std::vector<std::string> shared_stores() {
  std::vector<std::string> stores = holdfast::testing::stores_under_test();
  std::erase(stores, "memory");
  return stores;
}

}  // namespace holdfast::ids
