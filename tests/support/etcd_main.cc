// main() of the programs that test on etcd: without one the whole program is skipped, loudly.
#include <cstdio>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/etcd_server.h"
#include "tests/support/tries.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  if (const auto why = holdfast::support::EtcdCluster::unavailable()) {
    std::printf("SKIPPED: no etcd: %s\n", why->c_str());
    constexpr int kSkipped = 77;
    return std::getenv("HOLDFAST_REQUIRE_ETCD") != nullptr ? 1 : kSkipped;
  }
  return holdfast::support::run_all_cases();
}
