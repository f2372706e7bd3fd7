// Asynchronous calls of a forked child are refused on its own executor; the parent's go on.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include <asio/bind_executor.hpp>
#include <asio/execution/blocking.hpp>
#include <asio/io_context.hpp>

#include "holdfast/asio.h"
#include "tests/library/fixture.h"

namespace holdfast::testing {
namespace {

class AsyncForkTest : public LibraryTest {};
HOLDFAST_ON_EVERY_STORE(AsyncForkTest);

// Counts those of 8 calls that did not end with kClosed.
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

// Like Asio's pool of threads: not to be used after the end of main() has destroyed it.
struct Pool {
  ~Pool() {
    if (inside) ::_exit(1);
  }
  std::atomic<bool> inside{false};
  std::atomic<bool> ends{false};
};
Pool pool;

// Takes a completion in, and is still inside when the program ends.
struct PoolExecutor {
  static constexpr asio::execution::blocking_t::never_t query(asio::execution::blocking_t) {
    return asio::execution::blocking.never;
  }
  template <typename F>
  void execute(F&& completion) const {
    pool.inside = true;
    while (!pool.ends) std::this_thread::yield();
    std::this_thread::sleep_for(20ms);  // Time for a wrong end.
    std::forward<F>(completion)();
    pool.inside = false;
  }
  bool operator==(const PoolExecutor&) const = default;
};

TEST_P(AsyncForkTest, TheEndOfTheProgramDoesNotOvertakeACompletion) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    static const Client& client = *new Client(connect());  // Nobody waits for its threads.
    std::atexit([] { pool.ends = true; });
    async_inspect(client, "a", asio::bind_executor(PoolExecutor(), [](const auto&) {}));
    while (!pool.inside) std::this_thread::yield();
    std::exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace holdfast::testing
