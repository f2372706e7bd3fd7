// Compiled into each module, with HOLDFAST_MODULE_STORE as the name of its store.
#include <memory>
#include <optional>

#include <asio/detail/call_stack.hpp>
#include <asio/detail/scheduler.hpp>
#include <asio/detail/thread_context.hpp>
#include <asio/detail/thread_info_base.hpp>
#include <asio/io_context.hpp>

#include "holdfast/result.h"
#include "src/modules/module.h"
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

// This file's Asio sees from now on that the thread runs the loop, until the thread ends.
void enter_loop(asio::io_context& io, asio::detail::thread_info_base& thread) {
  using Stack =
      asio::detail::call_stack<asio::detail::thread_context, asio::detail::thread_info_base>;
  static thread_local std::optional<Stack::context> entered;
  if (!entered) entered.emplace(&asio::use_service<asio::detail::scheduler>(io), thread);
}

}  // namespace
}  // namespace holdfast::modules

extern "C" __attribute__((visibility("default")))
const holdfast::modules::StoreModule holdfast_store_module;

const holdfast::modules::StoreModule holdfast_store_module = {
    holdfast::modules::kBuild, &holdfast::stores::HOLDFAST_MODULE_MAKE,
    &holdfast::modules::enter_loop};
