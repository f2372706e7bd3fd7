// How a store is made from its URL.
#pragma once

#include <memory>

#include "holdfast/options.h"
#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/port/store.h"
#include "src/port/store_url.h"

namespace asio {
class io_context;
}

namespace holdfast::port {

struct StoreContext {
  Loop* loop = nullptr;            // Outlives the store.
  Listener* listener = nullptr;    // Outlives the store.
  std::string owner;               // The client's own id, unique in the world.
  asio::io_context* io = nullptr;  // The loop's own, for stores that talk to sockets.
  std::string name_space{};        // The prefix of all names: permissions may end there.
  // By then it is made, or says why not; a store may have less time for that.
  base::BootInstant open_by = base::BootInstant::max();
};

// `url` keeps only the options that this store should know; an unknown one is kInvalidArgument.
using StoreFactory = Result<std::unique_ptr<Store>> (*)(StoreUrl url, const StoreContext& context);

}  // namespace holdfast::port
