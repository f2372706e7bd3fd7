// These cases hold on every store of several servers while one of them is cut off from the others,
// and clients still reach all of them. One line per store instantiates the cases.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "tests/support/server_network.h"

namespace holdfast::faults {

// Three servers on a ServerNetwork.
class PartedCluster {
 public:
  virtual ~PartedCluster() = default;

  virtual support::ServerNetwork& network() = 0;
  virtual std::size_t leader() = 0;
  // It knows these servers, and talks to the first of them as long as that one answers.
  virtual Client connect(const std::vector<std::size_t>& servers, const std::string& session) = 0;
  virtual void heal() { network().heal(); }
  // All three are one cluster again.
  virtual bool whole() = 0;
};

struct PartitionSite {
  const char* store;
  void (*needs)();  // Skips the case loudly where there is no such server.
  std::unique_ptr<PartedCluster> (*make)();
  const char* short_session;
  // At most, on a machine that is busy:
  std::chrono::milliseconds election;  // From the leader's first silence until another one serves.
  std::chrono::milliseconds expiry;    // How long such a session is kept when its client is silent.
};

void PrintTo(const PartitionSite& site, std::ostream* out);

constexpr char kLongSession[] = "15s";

class PartitionFaults : public ::testing::TestWithParam<PartitionSite> {
 protected:
  void SetUp() override;
  // From the other servers, while clients hold locks through it and others wait for these.
  void cut_off(std::size_t server, bool leads);

  std::unique_ptr<PartedCluster> cluster_;
};

#define HOLDFAST_INSTANTIATE_PARTITIONS(Store, site)                        \
  INSTANTIATE_TEST_SUITE_P(Store, PartitionFaults, ::testing::Values(site), \
                           [](const auto&) { return std::string("Cluster"); })

}  // namespace holdfast::faults
