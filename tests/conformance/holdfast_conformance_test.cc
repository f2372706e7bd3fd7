#include "tests/conformance/harness.h"
#include "tests/conformance/holdfast_site.h"

namespace holdfast::testing {
namespace {

const StoreUnderTest kHoldfast{[] { return std::make_unique<TimedHoldfastSite>(); },
                               [] { return std::make_unique<HoldfastSite>(); }};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Holdfast, kHoldfast);

}  // namespace holdfast::testing
