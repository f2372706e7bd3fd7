// Calls that cross: a stop while the wait begins, close() beside other calls, two who keep one
// lease, the last handle going on a thread of ours. And durations at the ends of their range.
#include <algorithm>
#include <random>

#include "tests/library/fixture.h"

namespace holdfast::testing {
namespace {

class RacesTest : public LibraryTest {};
HOLDFAST_ON_EVERY_STORE(RacesTest);

TEST_P(RacesTest, AStopAtAnyInstantEndsTheWait) {
  Client holder = connect();
  Client waiter = connect();
  const Lease held = take(holder.mutex("a"), {.ttl = 60s});
  for (int delay = 0; delay < 150; ++delay) {
    std::stop_source source;
    std::atomic<bool> begun{false};
    std::optional<Result<Lease>> answer;
    std::thread waiting([&] {
      begun = true;
      begun.notify_all();
      answer = waiter.mutex("a").acquire({.wait = kPatience, .cancel = source.get_token()});
    });
    begun.wait(false);
    const auto until = base::BootClock::now() + std::chrono::microseconds(2 * delay);
    while (base::BootClock::now() < until) {
    }
    source.request_stop();
    waiting.join();
    ASSERT_TRUE(fails_with(*answer, Errc::kCancelled)) << "after " << 2 * delay << " us";
  }
}

TEST_P(RacesTest, CloseLeavesNoLeaseHeldWhateverIsUnderWay) {
  Client observer = connect();
  for (int round = 0; round < 25; ++round) {
    Client closed = connect();
    std::vector<std::thread> threads;
    std::vector<std::optional<Lease>> last(3);
    for (std::size_t i = 0; i < last.size(); ++i) {
      threads.emplace_back([&, i] {
        Mutex mutex = closed.mutex("l" + std::to_string(i));
        while (true) {
          auto lease = mutex.try_acquire({.ttl = 30s});
          if (!lease) return;
          if (*lease) last[i].emplace(*std::move(*lease));
          if (fails_with(closed.inspect("l0"), Errc::kClosed)) return;
        }
      });
    }
    std::this_thread::yield();
    EXPECT_TRUE(closed.close());
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < last.size(); ++i) {
      ASSERT_FALSE(last[i] && last[i]->held()) << "round " << round;
      ASSERT_TRUE(is_free(observer.mutex("l" + std::to_string(i)))) << "round " << round;
    }
  }
}

TEST_P(RacesTest, WhoLosesALeaseToAnAdopterIsToldAndDoesNotFreeIt) {
  Client first = connect();
  Client second = connect();
  Lease lease = take(first.mutex("a"), {.ttl = 30s, .auto_renew = false});
  auto adopted = second.adopt(lease.id(), {.ttl = 60s});
  ASSERT_TRUE(adopted) << adopted.error().message();
  EXPECT_TRUE(fails_with(lease.renew(), Errc::kLost));
  EXPECT_FALSE(lease.held());
  EXPECT_TRUE(fails_with(lease.release(), Errc::kLost));
  EXPECT_FALSE(is_free(first.mutex("a")));
  EXPECT_TRUE(adopted->renew());
  EXPECT_TRUE(adopted->release());
}

TEST_P(RacesTest, AnAdoptersRenewalDoesNotStretchTheDeadlineOfTheFirst) {
  Client first = connect();
  Client second = connect();
  Lease lease = take(first.mutex("a"), {.ttl = 30s, .auto_renew = false});
  const auto deadline = lease.deadline_boottime();
  {
    auto adopted = second.adopt(lease.id(), {.ttl = 40s, .auto_renew = false});
    ASSERT_TRUE(adopted) << adopted.error().message();
    adopted->detach();
  }
  static_cast<void>(lease.renew());
  EXPECT_EQ(lease.deadline_boottime(), deadline);
}

TEST_P(RacesTest, ReleaseAfterDetachSaysThatItDidNothing) {
  Client client = connect();
  Lease lease = take(client.mutex("a"), {.ttl = 60s});
  const std::string id = lease.id();
  lease.detach();
  EXPECT_TRUE(fails_with(lease.release(), Errc::kInvalidArgument));
  EXPECT_FALSE(is_free(client.mutex("a")));
  auto adopted = client.adopt(id);
  ASSERT_TRUE(adopted) << adopted.error().message();
  EXPECT_TRUE(adopted->release());
}

// A callback that holds the client makes a thread of ours the last to let go of it.
TEST_P(RacesTest, TheLastHandleMayGoOnAnyThread) {
  Client observer = connect();
  for (int round = 0; round < 50; ++round) {
    std::optional<Client> client = connect();
    Mutex mutex = client->mutex("n" + std::to_string(round % 3));
    AcquireOptions options;
    options.on_queued = [copy = *client](std::uint32_t) { static_cast<void>(copy); };
    std::optional<Lease> lease = take(mutex, std::move(options));
    client.reset();
    mutex = observer.mutex("other");
    lease.reset();
  }
  for (int name = 0; name < 3; ++name) {
    EXPECT_TRUE(observer.mutex("n" + std::to_string(name)).acquire({.wait = kPatience}));
  }
}

// A refused contender must not look like a holder to the others meanwhile.
TEST_P(RacesTest, OfTriesAtOnceExactlyOneWins) {
  for (int round = 0; round < 10; ++round) {
    const std::string name = "n" + std::to_string(round);
    std::vector<std::future<std::optional<Lease>>> tries;
    for (int i = 0; i < 6; ++i) {
      tries.push_back(std::async(std::launch::async, [this, i, name]() -> std::optional<Lease> {
        auto tried = (i % 2 == 0 ? one() : two()).mutex(name).try_acquire();
        EXPECT_TRUE(tried) << tried.error().message();
        return tried ? *std::move(tried) : std::nullopt;
      }));
    }
    std::vector<std::optional<Lease>> all;
    for (auto& each : tries) all.push_back(each.get());
    const auto won = std::count_if(all.begin(), all.end(), [](const auto& l) { return bool(l); });
    EXPECT_EQ(won, 1) << "round " << round;
  }
}

TEST_P(RacesTest, TheLongestDurationsMeanForEver) {
  using std::chrono::milliseconds;
  ClientOptions patient;
  patient.request_timeout = milliseconds::max();
  Client client = connect(patient);
  {
    const Lease lease =
        take(client.mutex("a"), {.wait = milliseconds::max(), .max_hold = milliseconds::max()});
    EXPECT_TRUE(lease.held());
  }
  Mutex mutex = client.mutex("a");
  EXPECT_TRUE(mutex.try_lock_for(std::chrono::hours::max()));
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock_for(std::chrono::duration<double>(1e18)));
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock_until(std::chrono::steady_clock::time_point::max()));
  EXPECT_FALSE(connect().mutex("a").try_lock_until(std::chrono::steady_clock::time_point::min()));
  EXPECT_FALSE(connect().mutex("a").try_lock_for(milliseconds::min()));
  mutex.unlock();
  EXPECT_TRUE(client.close(milliseconds::max()));
}

TEST_P(RacesTest, ClocksThatDifferTooMuchAreRefused) {
  ClientOptions options;
  options.clock_rate_error_ppm = 500'001;
  EXPECT_TRUE(fails_with(Client::connect(url(), options), Errc::kInvalidArgument));
}

}  // namespace
}  // namespace holdfast::testing
