// A store counter over a counter that is open already: what StoreCounter::open() does after it has
// opened the store of a URL.
#pragma once

#include <memory>
#include <string>

#include "holdfast/ids/store_counter.h"
#include "holdfast/result.h"
#include "src/port/native_counter.h"

namespace holdfast::ids {

struct StoreCounterOverNative {
  // Errors: as StoreCounter::open().
  static Result<std::unique_ptr<StoreCounter>> open(std::unique_ptr<port::NativeCounter> counter,
                                                    const std::string& name,
                                                    const StoreCounterOptions& options);
};

}  // namespace holdfast::ids
