// Asynchronous calls of a forked child are refused on its own executor; the parent's go on.
#include <sys/wait.h>
#include <unistd.h>

#include <asio/bind_executor.hpp>
#include <asio/io_context.hpp>

#include "holdfast/asio.h"
#include "tests/library/fixture.h"

namespace holdfast::testing {
namespace {

class AsyncForkTest : public LibraryTest {};
HOLDFAST_ON_EVERY_STORE(AsyncForkTest);

// What is left of 8 calls when those that said kClosed are taken away.
int refused_in_child(const Client& client, Lease& lease) {
  asio::io_context io;
  int left = 8;
  auto closed = asio::bind_executor(io, [&left](const auto& result) {
    if (!result && result.error().code() == Errc::kClosed) --left;
  });
  async_acquire(client.mutex("a"), closed);
  async_try_acquire(client.mutex("a"), closed);
  async_release(lease, closed);
  async_renew(lease, closed);
  async_adopt(client, lease.id(), {}, closed);
  async_inspect(client, "a", closed);
  async_list(client, "", 10, closed);
  async_close(client, 1s, closed);
  if (left != 8) return 100;  // Inside of the calls.
  io.run();
  return left;
}

TEST_P(AsyncForkTest, AChildIsRefusedAndTheParentGoesOn) {
  asio::io_context io;
  Client client = connect();
  std::optional<Lease> lease = take(client.mutex("a"), {.ttl = 60s});
  int granted = 0;
  async_acquire(client.mutex("a"), {.wait = kPatience},
                asio::bind_executor(io, [&](const Result<Lease>& got) { granted += got ? 1 : 0; }));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(refused_in_child(client, *lease));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(lease->held());
  lease.reset();
  io.run();
  EXPECT_EQ(granted, 1);
}

}  // namespace
}  // namespace holdfast::testing
