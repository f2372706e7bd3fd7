// Questions to a store that make no client: the jobs of a StoreContext.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "holdfast/result.h"
#include "src/port/native_counter.h"
#include "src/port/records.h"
#include "src/port/registry.h"

namespace holdfast::client {

// Has the factory answer the context's job. `context.open_by` bounds it.
// Errors: the factory's; the module of the store cannot be loaded.
Result<void> ask_store(port::StoreFactory factory, port::StoreUrl url, port::StoreContext& context);

// The records in the store of a client's URL, beside its locks. A namespace (`ns`) is the prefix of
// all keys, so a key is shorter by that.
// Errors: as Client::connect(); kUnsupported: the store keeps no records.
Result<std::unique_ptr<port::Records>> open_records(const std::string& url);

// The counter `name` in the store of a client's URL, which takes no namespace: other programs use
// the same name. A call whose time has passed is kUnavailable.
// Errors: as Client::connect(); those of a NativeCounterJob; kUnsupported: the store has no
// counters.
Result<std::unique_ptr<port::NativeCounter>> open_counter(const std::string& url,
                                                          const std::string& name);
Result<void> create_counter(const std::string& url, const std::string& name, std::uint64_t first);

}  // namespace holdfast::client
