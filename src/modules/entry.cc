// Compiled into each module, with HOLDFAST_MODULE_STORE as the name of its store.
#include <memory>

#include "holdfast/result.h"
#include "src/modules/module.h"
#include "src/port/enter_loop.h"
#include "src/port/registry.h"

#define HOLDFAST_MODULE_JOIN_3(a, b, c) a##b##c
#define HOLDFAST_MODULE_JOIN(a, b, c) HOLDFAST_MODULE_JOIN_3(a, b, c)
#define HOLDFAST_MODULE_MAKE HOLDFAST_MODULE_JOIN(make_, HOLDFAST_MODULE_STORE, _store)

namespace holdfast::stores {

Result<std::unique_ptr<port::Store>> HOLDFAST_MODULE_MAKE(port::StoreUrl url,
                                                          const port::StoreContext& context);

}  // namespace holdfast::stores

namespace holdfast::modules {
namespace {

struct Module {};

}  // namespace
}  // namespace holdfast::modules

extern "C" __attribute__((visibility("default")))
const holdfast::modules::StoreModule holdfast_store_module;

const holdfast::modules::StoreModule holdfast_store_module = {
    holdfast::modules::kBuild, &holdfast::stores::HOLDFAST_MODULE_MAKE,
    &holdfast::port::enter_loop_here<holdfast::modules::Module>};
