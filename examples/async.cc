// Locks with Asio: a coroutine, a callback, and a wait that gives up after a time of its own; run
// as a test.
#include <chrono>
#include <cstdio>
#include <string>

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include "holdfast/asio.h"

namespace {

using namespace std::chrono_literals;

int failures = 0;

void report(const holdfast::Error& error) {
  std::fprintf(stderr, "%s\n", error.message().c_str());
  ++failures;
}

// [region: coroutine]
asio::awaitable<void> charge(holdfast::Client client, std::string order) {
  using holdfast::Lease;
  using holdfast::Result;
  const holdfast::AcquireOptions options{.wait = 5s, .ttl = 30s};
  auto mutex = client.mutex("orders/" + order);
  Result<Lease> lease = co_await holdfast::async_acquire(mutex, options, asio::use_awaitable);
  if (!lease) co_return report(lease.error());

  std::printf("charging %s with token %s\n", order.c_str(), lease->token().to_string().c_str());
  co_await asio::post(asio::use_awaitable);  // other coroutines of this thread run meanwhile
  if (auto loss = lease->loss()) co_return report(*loss);  // stop: it may be someone else's

  Result<void> released = co_await holdfast::async_release(*lease, asio::use_awaitable);
  if (!released) report(released.error());
}
// [end]

void callbacks(const holdfast::Client& client, asio::io_context& io) {
  // [region: callback]
  holdfast::async_acquire(
      client.mutex("stock"), {.wait = 5s},
      asio::bind_executor(io, [](const holdfast::Result<holdfast::Lease>& lease) {
        if (!lease) return report(lease.error());
        std::printf("stock is ours\n");
      }));  // the lease goes with the handler, and the lock with the lease
  // [end]
}

// Somebody waits for a lock that is held, and is told to stop.
void give_up(const holdfast::Client& client) {
  auto held = client.mutex("busy").acquire();
  if (!held) return report(held.error());
  asio::io_context io;
  bool cancelled = false;
  // [region: cancel]
  asio::cancellation_signal signal;
  holdfast::async_acquire(
      client.mutex("busy"),
      asio::bind_cancellation_slot(signal.slot(), asio::bind_executor(io, [&](const auto& lease) {
                                     cancelled = !lease &&
                                                 lease.error().code() == holdfast::Errc::kCancelled;
                                   })));
  signal.emit(asio::cancellation_type::total);  // nothing is left of the wait, in the store neither
  // [end]
  io.run();
  if (!cancelled) report({holdfast::Errc::kInvalidArgument, "the wait was not cancelled"});
}

}  // namespace

int main() {
  auto client = holdfast::Client::connect("memory:");
  if (!client) return report(client.error()), 1;
  asio::io_context io;
  for (const char* order : {"41", "42", "42"}) {
    asio::co_spawn(io, charge(*client, order), [](const std::exception_ptr& thrown) {
      if (thrown) std::rethrow_exception(thrown);
    });
  }
  callbacks(*client, io);
  io.run();  // returns when all of it is done
  give_up(*client);
  return failures == 0 ? 0 : 1;
}
