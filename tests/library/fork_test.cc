// A forked child holds nothing and touches nothing of its parent, however the fork was made.
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>
#include <functional>

#include "tests/library/fixture.h"

namespace holdfast::testing {

class ForkTest : public LibraryTest {
 protected:
  // The exit code of a child that runs `body`; it is killed if it hangs.
  static int in_child(const std::function<pid_t()>& make, const std::function<int()>& body) {
    const pid_t child = make();
    if (child == 0) {
      ::alarm(20);
      ::_exit(body());
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) return 1000 + WTERMSIG(status);
    return WEXITSTATUS(status);
  }
};
HOLDFAST_ON_EVERY_STORE(ForkTest);

TEST_P(ForkTest, TheChildHoldsNothingAndTheParentGoesOn) {
  Client client = connect();
  Mutex mutex = client.mutex("orders");
  std::optional<Lease> lease = take(mutex, {.ttl = 1500ms});
  Mutex locked = client.mutex("locked");
  locked.lock();
  const auto closed = [](const auto& result) {
    return !result && result.error().code() == Errc::kClosed;
  };
  const int code = in_child([] { return ::fork(); },
                            [&] {
                              if (lease->held()) return 1;
                              if (lease->state() != LeaseState::kLost) return 2;
                              if (lease->remaining() != 0ms) return 3;
                              if (!lease->loss() || lease->loss()->code() != Errc::kClosed)
                                return 4;
                              if (!closed(lease->release()) || !closed(lease->renew())) return 5;
                              if (!closed(mutex.acquire()) || !closed(mutex.try_acquire()))
                                return 6;
                              if (!closed(client.inspect("orders")) || !closed(client.list()))
                                return 7;
                              if (!closed(client.break_lock("orders", lease->token()))) return 8;
                              if (locked.lease() != nullptr) return 9;
                              locked.unlock();
                              lease.reset();  // Destructors send nothing either.
                              if (!closed(client.close())) return 10;
                              return 0;
                            });
  EXPECT_EQ(code, 0);
  EXPECT_FALSE(fires(lease->lost(), 3000ms));  // Two leases: renewals go on.
  EXPECT_TRUE(lease->held());
  EXPECT_FALSE(is_free(connect().mutex("orders")));
  EXPECT_FALSE(is_free(connect().mutex("locked")));
  EXPECT_TRUE(lease->release());
  locked.unlock();
}

TEST_P(ForkTest, TheChildMayConnectAnew) {
  const Client client = connect();
  const Lease lease = take(client.mutex("orders"));
  const int code = in_child([] { return ::fork(); },
                            [&] {
                              auto own = Client::connect(url());
                              if (!own) return 1;
                              auto other = own->mutex("mine").acquire({.wait = 5s});
                              if (!other || !other->held()) return 2;
                              if (!other->release()) return 3;
                              if (GetParam() == "memory") return 0;
                              auto taken = own->mutex("orders").try_acquire();
                              if (!taken) return 4;
                              return taken->has_value() ? 5 : 0;
                            });
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(lease.held());
}

// A bare clone escapes pthread_atfork. The child may only look: its heap may be locked.
TEST_P(ForkTest, AClonedChildHoldsNothing) {
  const Client client = connect();
  const Lease lease = take(client.mutex("orders"));
  const int code = in_child(
      [] {
        return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
      },
      [&] { return lease.held() || lease.remaining() != 0ms ? 1 : 0; });
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(lease.held());
}

TEST_P(ForkTest, AForkOfAForkHoldsNothing) {
  const Client client = connect();
  const Lease lease = take(client.mutex("orders"));
  const auto fork = [] { return ::fork(); };
  EXPECT_EQ(in_child(fork,
                     [&] {
                       const pid_t grandchild = ::fork();
                       if (grandchild == 0) ::_exit(lease.held() ? 1 : 0);
                       int status = 0;
                       ::waitpid(grandchild, &status, 0);
                       return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
                     }),
            0);
  EXPECT_TRUE(lease.held());
}

// The parent's other threads are in the middle of things when it forks.
TEST_P(ForkTest, ForkingInTheMiddleOfTrafficDisturbsNobody) {
  const Client client = connect();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::atomic<int> rounds{0};
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        auto lease = client.mutex("hot").acquire({.wait = kPatience});
        ASSERT_TRUE(lease) << lease.error().message();
        ++rounds;
        EXPECT_TRUE(lease->release());
      }
    });
  }
  const Lease mine = take(client.mutex("mine"));
  for (int i = 0; i < 20; ++i) {
    const int before = rounds;
    EXPECT_EQ(in_child([] { return ::fork(); },
                       [&] {
                         if (mine.held()) return 1;
                         return client.mutex("mine").try_acquire() ? 2 : 0;
                       }),
              0);
    while (rounds == before) std::this_thread::yield();
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(mine.held());
}

}  // namespace holdfast::testing
