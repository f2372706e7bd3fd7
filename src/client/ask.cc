#include "src/client/ask.h"

#include <utility>

#include <asio/io_context.hpp>

namespace holdfast::client {

Result<void> ask_store(port::StoreFactory factory, port::StoreUrl url,
                       port::StoreContext& context) {
  asio::io_context unused;  // The factory of a store that is a module posts to it.
  if (context.io == nullptr) context.io = &unused;
  const auto made = factory(std::move(url), context);
  if (!made) return made.error();
  return {};
}

}  // namespace holdfast::client
