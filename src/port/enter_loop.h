// Makes a loop's thread known to the Asio of another file.
//
// Asio recognises the thread by a thread-local list, and the library and each module have a list of
// their own (docs/design/0020-store-modules.md). An operation of a file whose list lacks the thread
// ends in a null pointer. So the client's loop enters each module (src/modules), and a loop that a
// module runs by itself enters the library.
//
// Thread-safety: on the loop's thread. It stays known until the thread ends. May be repeated.
#pragma once

#include <optional>

#include <asio/detail/call_stack.hpp>
#include <asio/detail/scheduler.hpp>
#include <asio/detail/thread_context.hpp>
#include <asio/detail/thread_info_base.hpp>
#include <asio/io_context.hpp>

namespace holdfast::port {

// For the list of the file that calls. `Here` is a type of that file alone.
template <typename Here>
void enter_loop_here(asio::io_context& io, asio::detail::thread_info_base& thread) {
  using Stack =
      asio::detail::call_stack<asio::detail::thread_context, asio::detail::thread_info_base>;
  static thread_local std::optional<Stack::context> entered;
  auto& scheduler = asio::use_service<asio::detail::scheduler>(io);
  if (Stack::contains(&scheduler) == nullptr) entered.emplace(&scheduler, thread);
}

// For the library's list.
void enter_loop(asio::io_context& io, asio::detail::thread_info_base& thread);

}  // namespace holdfast::port
