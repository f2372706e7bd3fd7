#include "tests/conformance/harness.h"
#include "tests/conformance/holdfast_site.h"

namespace holdfast::testing {
namespace {

const StoreUnderTest kHoldfast{[] { return std::make_unique<TimedHoldfastSite>(); },
                               [] { return std::make_unique<HoldfastSite>(); }};

const StoreUnderTest kHoldfastInFolderShards{
    [] { return std::make_unique<TimedHoldfastSite>(std::string(), 4); },
    [] { return std::make_unique<HoldfastSite>(server::ServerTuning{}, std::string(), 4); }};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Holdfast, kHoldfast);
HOLDFAST_INSTANTIATE_CONFORMANCE(HoldfastInFolderShards, kHoldfastInFolderShards);

}  // namespace holdfast::testing
