// The interface of a store's module, libholdfast-store-NAME.so, to the library that loads it.
#pragma once

#include "src/port/registry.h"

namespace asio::detail {
class thread_info_base;
}

namespace holdfast::modules {

// The module's only symbol: kEntry names a constant of this type.
struct StoreModule {
  const char* build;  // kBuild of the module. First in every version, so that any can be read.
  port::StoreFactory make;
  // Called on the loop's thread before the store does anything there, with what Asio keeps for that
  // thread. Each file has an Asio of its own, which finds it in a thread-local list of its own.
  void (*enter_loop)(asio::io_context& io, asio::detail::thread_info_base& thread);
};

inline constexpr const char* kEntry = "holdfast_store_module";

#define HOLDFAST_MODULES_TEXT_OF(x) #x
#define HOLDFAST_MODULES_TEXT(x) HOLDFAST_MODULES_TEXT_OF(x)

// Module and library exchange C++ objects: nothing may differ in how the two were built.
inline constexpr const char* kBuild =
    HOLDFAST_MODULE_BUILD " abi " HOLDFAST_MODULES_TEXT(__GXX_ABI_VERSION);

#undef HOLDFAST_MODULES_TEXT
#undef HOLDFAST_MODULES_TEXT_OF

}  // namespace holdfast::modules
