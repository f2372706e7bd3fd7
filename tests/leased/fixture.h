// Worker numbers in a store that several processes share: a place of its own for each case.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/ids/leased_workers.h"
#include "tests/leased/crowd.h"
#include "tests/records/place.h"

namespace holdfast::ids {

inline constexpr const char* kName = "orders";
inline constexpr std::chrono::milliseconds kTtl{1'500};

inline LeasedWorkersSpec spec_of(std::uint64_t workers, const ClockPolicy& policy = {}) {
  return {*Layout::parse("time:41 worker:10 sequence:12"), policy, workers};
}
inline LeasedWorkersOptions options() { return {.ttl = kTtl}; }

// The parts of its last id.
Decoded last_of(const holdfast::testing::Giver& giver);
// The numbers that their last ids carry.
std::set<std::uint64_t> workers_of(const holdfast::testing::Givers& givers);
// Until no process holds one of them.
::testing::AssertionResult become_free(const std::string& url, const std::string& name,
                                       const std::set<std::uint64_t>& workers);

// The parameter names the store.
class LeasedTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;

  // Its leases end soon after a kill, where they live by the sessions of clients, too.
  std::string short_leases() const;

  std::unique_ptr<holdfast::testing::Place> place_;
};

// The stores that several processes can share.
std::vector<std::string> shared_stores();

#define HOLDFAST_ON_SHARED_STORES(Suite)                                        \
  INSTANTIATE_TEST_SUITE_P(Stores, Suite, ::testing::ValuesIn(shared_stores()), \
                           [](const auto& store) { return store.param; })

}  // namespace holdfast::ids
