// Takes and releases a lock in a coroutine, by the installed header and the program's own Asio.
#include <cstdio>

#include <asio.hpp>
#include <holdfast/asio.h>

asio::awaitable<void> use(holdfast::Client client, int& done) {
  auto lease = co_await holdfast::async_acquire(client.mutex("consumer"), asio::use_awaitable);
  if (!lease) co_return;
  auto released = co_await holdfast::async_release(*lease, asio::use_awaitable);
  if (released) ++done;
}

int main(int argc, char** argv) {
  asio::io_context io;
  int done = 0;
  for (int i = 1; i < argc; ++i) {
    auto client = holdfast::Client::connect(argv[i]);
    if (!client) return std::fprintf(stderr, "%s\n", client.error().message().c_str()), 1;
    asio::co_spawn(io, use(*client, done), asio::detached);
  }
  io.run();
  return done == argc - 1 && done > 0 ? 0 : 1;
}
