// fork() beside threads that use SQLite.
#include "src/stores/sqlite/file/fork_gate.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>

#include "src/stores/sqlite/file/test_database_hog.h"
#include "src/stores/sqlite/store_test_support.h"

namespace holdfast::stores::sqlite::testing {
namespace {

// The code with which a child that runs `body` ends.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

// Two threads, each of which leaves when the other has entered: one of them is always inside, if
// nobody is let in between.
TEST(ForkGateTest, AForkGetsItsTurnAmongThreadsThatAreAlwaysInside) {
  std::array<std::atomic<int>, 2> entered{};
  std::atomic<bool> stop{false};
  const auto give_up = base::BootClock::now() + 3s;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      while (!stop && base::BootClock::now() < give_up) {
        const InsideSqlite here;
        const int seen = entered[1 - i];
        ++entered[i];
        const auto turn = base::BootClock::now() + 200ms;
        while (entered[1 - i] == seen && base::BootClock::now() < turn) std::this_thread::yield();
      }
    });
  }
  while (entered[0] < 2 || entered[1] < 2) std::this_thread::yield();
  EXPECT_EQ(in_child([] { return 7; }), 7);
  EXPECT_LT(base::BootClock::now(), give_up);
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(ForkGateTest, WhoIsInsideMayEnterAgainWhileAForkWaits) {
  std::atomic<bool> entered{false};
  std::atomic<bool> forked{false};
  std::thread user([&] {
    const InsideSqlite outer;
    entered = true;
    const auto until = base::BootClock::now() + 200ms;
    while (base::BootClock::now() < until) const InsideSqlite inner;
    EXPECT_FALSE(forked);
  });
  while (!entered) std::this_thread::yield();
  EXPECT_EQ(in_child([] { return 7; }), 7);
  forked = true;
  user.join();
}

// The child lets go of a connection that a thread of the parent was waiting with, and has the store
// for its own.
TEST(ForkGateTest, AForkDoesNotWaitForADatabaseThatAnotherProcessKeepsLocked) {
#if defined(HOLDFAST_SANITIZED_THREADS)
  GTEST_SKIP() << "SKIPPED: the thread sanitizer allows a forked child no threads of its own";
#endif
  const TempFolder folder;
  const std::string path = folder / "locks.db";
  const Hog hog(path);
  std::atomic<bool> asked{false};
  std::atomic<bool> watch{false};
  SqliteTuning tuning;
  tuning.now = [&] {
    if (watch) asked = true;
    return machine::Instant(
        std::chrono::duration_cast<machine::Duration>(base::host_boot_now().time_since_epoch()));
  };
  auto client = open_client(path, tuning);
  ASSERT_NE(client, nullptr);
  hog.lock();
  watch = true;
  std::atomic<bool> answered{false};
  Result<AcquisitionState> got = Error(Errc::kTimedOut, "not asked");
  std::thread asking([&] {
    got = client->acquire(request_for("a"));
    answered = true;
  });
  while (!asked) std::this_thread::yield();
  int ready[2] = {};
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    client->store->abandon_after_fork();
    char byte = 0;
    if (::read(ready[0], &byte, 1) != 1) ::_exit(2);
    auto own = TestClient::open(path);
    if (!own) ::_exit(3);
    const auto mine = (*own)->acquire(request_for("b"));
    const auto taken = (*own)->acquire(request_for("a"));
    const bool good = mine && mine->status == AcquisitionStatus::kHeld && taken &&
                      taken->status == AcquisitionStatus::kWaiting;
    ::_exit(good ? 7 : 4);
  }
  EXPECT_FALSE(answered) << "fork() waited for the other process";
  hog.let_go();
  asking.join();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(got->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(::write(ready[1], "g", 1), 1);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  for (const int fd : ready) ::close(fd);
}

}  // namespace
}  // namespace holdfast::stores::sqlite::testing
