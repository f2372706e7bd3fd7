#include "tests/conformance/failover_site.h"

namespace holdfast::testing {
namespace {

const StoreUnderTest kFailover{[] { return std::make_unique<FailoverSite>(); },
                               [] { return std::make_unique<FailoverSite>(); }};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Failover, kFailover);

}  // namespace holdfast::testing
