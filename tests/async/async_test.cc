// The asynchronous calls by every kind of completion token, their executors, allocators and
// signals.
#include <atomic>
#include <deque>
#include <future>
#include <memory_resource>

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/deferred.hpp>
#include <asio/io_context.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>

#include "holdfast/asio.h"
#include "tests/library/fixture.h"

namespace holdfast::testing {
namespace {

class AsyncTest : public LibraryTest {
 protected:
  // Runs all that is to be done; false: it stands still.
  static bool run(asio::io_context& io) {
    while (!io.stopped()) {
      if (io.run_one_for(kPatience) == 0 && !io.stopped()) return false;
    }
    return true;
  }
};
HOLDFAST_ON_EVERY_STORE(AsyncTest);

asio::awaitable<void> use_several_locks(Client client, Client other) {
  using asio::use_awaitable;
  AcquireOptions options;
  options.ttl = 30s;
  std::vector<LockRequest> locks{{"m/b"}, {"m/a", Mode::shared()}};
  Result<LeaseSet> set = co_await async_acquire_all(client, locks, options, use_awaitable);
  EXPECT_TRUE(set) << set.error().message();
  if (!set) co_return;
  EXPECT_TRUE(set->held());
  Result<std::optional<LeaseSet>> none =
      co_await async_try_acquire_all(other, locks, options, use_awaitable);
  EXPECT_TRUE(none && !*none);

  // One waits for the set, until it is given back.
  auto waiting = async_acquire_all(other, locks, options, asio::use_future);
  Result<void> released = co_await async_release(*set, use_awaitable);
  EXPECT_TRUE(released) << released.error().message();
  Result<LeaseSet> next = waiting.get();
  EXPECT_TRUE(next && next->held());
}

// The answer of a call that should be through at once.
template <typename T>
T got(std::future<Result<T>> answer) {
  if (answer.wait_for(kPatience) != std::future_status::ready) std::abort();
  if constexpr (std::is_void_v<T>) {
    answer.get().value();
  } else {
    return answer.get().value();
  }
}

void use_readers_and_permits(const Client& client, const AcquireOptions& options) {
  const auto& token = asio::use_future;
  SharedMutex doc = client.shared_mutex("doc");
  {
    Lease writer = got(async_acquire(doc, options, token));
    EXPECT_FALSE(got(async_try_acquire_shared(doc, options, token)));
    got(async_downgrade(doc, writer, token));
    EXPECT_FALSE(got(async_try_acquire(doc, options, token)));
    got(async_release(writer, token));
  }
  Lease reader = got(async_acquire_shared(doc, options, token));
  EXPECT_TRUE(got(async_upgrade(doc, reader, options, token)).held());

  Semaphore slots = client.semaphore("slots", 2);
  Lease both = got(async_acquire(slots, 2, options, token));
  EXPECT_FALSE(got(async_try_acquire(slots, 1, options, token)));
  EXPECT_TRUE(got(async_resize(slots, 3, token)));
  EXPECT_EQ(got(async_count(slots, token)).available(), 1U);

  const Owner me;
  RecursiveMutex tree = client.recursive_mutex("tree");
  RecursiveLease outer = got(async_acquire(tree, me, options, token));
  EXPECT_EQ(got(async_try_acquire(tree, me, options, token))->depth(), 2U);
  got(async_release(outer, token));

  StripedMutex stock = client.striped_mutex("stock", 2);
  Lease one = got(async_acquire(stock, "k", options, token));
  got(async_release(one, token));
  LeaseSet whole = got(async_acquire_all(stock, options, token));
  EXPECT_FALSE(got(async_try_acquire(stock, "k", options, token)));
  got(async_release(whole, token));
  EXPECT_TRUE(got(async_acquire_any(stock, "k", options, token)).held());
}

void use_values(const Client& client, const AcquireOptions& options) {
  const auto& token = asio::use_future;
  Latch gate = client.latch("gate", 3);
  EXPECT_EQ(got(async_count_down(gate, 1, token)), 2U);
  EXPECT_EQ(got(async_arrive_and_wait(gate, 2, options, token)), 0U);
  got(async_wait(gate, options, token));
  got(async_reset(gate, 5, token));
  EXPECT_EQ(got(async_count(gate, token)), 5U);

  Barrier step = client.barrier("step", 2);
  BarrierSeat left = got(async_join(step, options, token));
  BarrierSeat right = got(async_join(step, options, token));
  auto passing = async_arrive_and_wait(left, options, token);
  got(async_arrive_and_leave(right, token));
  got(std::move(passing));
  EXPECT_EQ(got(async_count(step, token)).parties, 1U);
  got(async_reset(step, token));

  Election election = client.election("leader");
  std::promise<void> told;
  const Watch watch = got(async_observe(
      election,
      [&, once = false](const LeaderChange&) mutable {
        if (!std::exchange(once, true)) told.set_value();
      },
      token));
  EXPECT_EQ(told.get_future().wait_for(kPatience), std::future_status::ready);
  Leadership leading = got(async_campaign(election, "here", options, token));
  EXPECT_FALSE(got(async_try_campaign(election, "there", options, token)));
  got(async_proclaim(leading, "now here", token));
  EXPECT_EQ(got(async_leader(election, token))->value, "now here");
}

// Objects that are kept for longer than their client may live.
void use_what_outlives_its_client(const Client& client, const AcquireOptions& options) {
  const auto& token = asio::use_future;
  Once once = client.once("order", 10s);
  OnceTurn turn = got(async_begin(once, options, token));
  got(async_complete(turn, "done", token));
  EXPECT_EQ(got(async_begin(once, options, token)).outcome(), "done");

  std::optional<JobLease> job = got(async_try_acquire(client.job_lock("job"), options, token));
  got(async_release(*job, token));
}

TEST_P(AsyncTest, EveryPrimitiveHasAsynchronousCalls) {
  const Client client = connect();
  AcquireOptions options;
  options.ttl = 30s;
  use_readers_and_permits(client, options);
  use_values(client, options);
}

TEST_P(AsyncTest, WhatOutlivesItsClientHasAsynchronousCallsToo) {
  AcquireOptions options;
  options.ttl = 30s;
  use_what_outlives_its_client(connect(), options);
}

asio::awaitable<void> use_every_call(Client client, std::string url) {
  using asio::use_awaitable;
  AcquireOptions options;
  options.ttl = 30s;
  options.reason = "a reason that is too long to be kept inside of a string object";
  Result<Lease> lease = co_await async_acquire(client.mutex("a"), options, use_awaitable);
  EXPECT_TRUE(lease) << lease.error().message();
  if (!lease) co_return;
  EXPECT_TRUE(lease->held());

  Result<std::optional<Lease>> second =
      co_await async_try_acquire(client.mutex("a"), options, use_awaitable);
  EXPECT_TRUE(second && !*second);
  Result<std::optional<Lease>> shared =
      co_await async_try_acquire(client, "s", Mode::shared(), options, use_awaitable);
  EXPECT_TRUE(shared && *shared);

  Result<void> renewed = co_await async_renew(*lease, use_awaitable);
  EXPECT_TRUE(renewed) << renewed.error().message();

  Result<std::optional<LockInfo>> info = co_await async_inspect(client, "a", use_awaitable);
  EXPECT_TRUE(info && *info && (*info)->holders.size() == 1);
  EXPECT_EQ(info.value().value().holders.front().who.reason, options.reason);
  Result<bool> current = co_await async_check(client, "a", lease->token(), use_awaitable);
  EXPECT_TRUE(client.guarantees().fenced ? current && *current
                                         : current.error().code() == Errc::kUnsupported);
  Result<std::vector<LockInfo>> all = co_await async_list(client, "", 10, use_awaitable);
  if (client.guarantees().list) {
    EXPECT_TRUE(all && all->size() == 2);
  } else {
    EXPECT_EQ(all.error().code(), Errc::kUnsupported);
  }
  Result<DoctorReport> report = co_await async_doctor(client, use_awaitable);
  EXPECT_TRUE(report) << report.error().message();

  Result<void> released = co_await async_release(*lease, use_awaitable);
  EXPECT_TRUE(released) << released.error().message();
  Result<void> again = co_await async_release(*lease, use_awaitable);
  EXPECT_TRUE(again) << again.error().message();

  Result<Lease> third =
      co_await async_acquire(client, "a", Mode::exclusive(), options, use_awaitable);
  EXPECT_TRUE(third) << third.error().message();
  if (!third) co_return;
  const Token token = third->token();
  Result<std::optional<Lease>> fourth =
      co_await async_try_acquire(client.mutex("a"), use_awaitable);
  EXPECT_TRUE(fourth && !*fourth);
  Result<void> broken = co_await async_break_lock(client, "a", token, "why not", use_awaitable);
  EXPECT_TRUE(broken) << broken.error().message();
  Result<void> renewed_late = co_await async_renew(*third, use_awaitable);
  EXPECT_TRUE(fails_with(renewed_late, Errc::kBroken));
  Result<void> broken_again =
      co_await async_break_lock(client, "a", token, "once more", use_awaitable);
  EXPECT_TRUE(fails_with(broken_again, Errc::kLost));

  ClientOptions client_options;
  Result<Client> other = co_await async_connect(url, client_options, use_awaitable);
  EXPECT_TRUE(other) << other.error().message();
  Result<Client> nowhere = co_await async_connect("pigeon:", client_options, use_awaitable);
  EXPECT_TRUE(fails_with(nowhere, Errc::kInvalidArgument));

  Result<void> closed = co_await async_close(client, kPatience, use_awaitable);
  EXPECT_TRUE(closed) << closed.error().message();
  Result<void> late = co_await async_renew(*lease, use_awaitable);
  EXPECT_TRUE(fails_with(late, Errc::kClosed));
  Result<std::optional<LockInfo>> refused = co_await async_inspect(client, "a", use_awaitable);
  EXPECT_TRUE(fails_with(refused, Errc::kClosed));
}

asio::awaitable<void> adopt_a_lease(Client client) {
  using asio::use_awaitable;
  AcquireOptions options;
  options.ttl = 30s;
  Result<Lease> lease = co_await async_acquire(client.mutex("a"), options, use_awaitable);
  EXPECT_TRUE(lease) << lease.error().message();
  if (!lease) co_return;
  const std::string id = lease->id();
  lease->detach();
  Result<Lease> adopted = co_await async_adopt(client, id, options, use_awaitable);
  EXPECT_TRUE(adopted) << adopted.error().message();
  if (!adopted) co_return;
  Result<void> released = co_await async_release(*adopted, use_awaitable);
  EXPECT_TRUE(released) << released.error().message();
}

TEST_P(AsyncTest, SeveralLocksAreTakenTogether) {
  asio::io_context io;
  asio::co_spawn(io, use_several_locks(connect(), connect()), asio::detached);
  EXPECT_TRUE(run(io));
}

// Whenever the signal comes: all are held, or nothing of them is left.
TEST_P(AsyncTest, ASignalGivesBackWhatWasTakenOfSeveral) {
  const Client client = connect();
  const Client holder = connect();
  int cancelled = 0;
  for (int round = 0; round < 30; ++round) {
    Lease held = take(holder.mutex("m/b"));
    asio::io_context io;
    asio::cancellation_signal stop;
    AcquireOptions options;
    options.ttl = 30s;
    std::optional<Result<LeaseSet>> answer;
    async_acquire_all(client, {{"m/a"}, {"m/b"}, {"m/c"}}, options,
                      asio::bind_cancellation_slot(
                          stop.slot(), asio::bind_executor(io, [&](Result<LeaseSet> got) {
                            answer.emplace(std::move(got));
                          })));
    std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
    if (round % 3 == 2) static_cast<void>(held.release());
    stop.emit(asio::cancellation_type::total);
    ASSERT_TRUE(run(io));
    ASSERT_TRUE(answer);
    if (*answer) {
      EXPECT_TRUE((*answer)->held());
      EXPECT_TRUE((*answer)->release());
    } else {
      EXPECT_TRUE(fails_with(*answer, Errc::kCancelled));
      ++cancelled;
    }
    static_cast<void>(held.release());
    for (const char* name : {"m/a", "m/b", "m/c"}) {
      const auto left = holder.inspect(name);
      ASSERT_TRUE(left) << left.error().message();
      EXPECT_TRUE(!*left || ((*left)->holders.empty() && (*left)->waiters.empty()))
          << name << " in round " << round;
    }
  }
  EXPECT_GE(cancelled, 15);
}

TEST_P(AsyncTest, CoroutinesAwaitEveryCall) {
  asio::io_context io;
  bool ended = false;
  asio::co_spawn(io, use_every_call(connect(), url()), [&](const std::exception_ptr& thrown) {
    EXPECT_EQ(thrown, nullptr);
    ended = true;
  });
  EXPECT_TRUE(run(io));
  EXPECT_TRUE(ended);
}

TEST_P(AsyncTest, ACoroutineAdoptsALease) {
  asio::io_context io;
  bool ended = false;
  asio::co_spawn(io, adopt_a_lease(connect()), [&](const std::exception_ptr& thrown) {
    EXPECT_EQ(thrown, nullptr);
    ended = true;
  });
  EXPECT_TRUE(run(io));
  EXPECT_TRUE(ended);
}

TEST_P(AsyncTest, CallbacksRunOnTheirExecutor) {
  Client client = connect();
  asio::io_context io;
  int calls = 0;
  const auto mine = std::this_thread::get_id();
  for (int i = 0; i < 50; ++i) {
    async_acquire(client.mutex("a"), {.ttl = 30s}, asio::bind_executor(io, [&](Result<Lease> got) {
                    EXPECT_TRUE(got) << got.error().message();
                    EXPECT_EQ(std::this_thread::get_id(), mine);
                    if (++calls % 2 == 0) return;  // Its destructor releases as well.
                    async_release(*got, asio::bind_executor(io, [&](const Result<void>& released) {
                      EXPECT_TRUE(released);
                      EXPECT_EQ(std::this_thread::get_id(), mine);
                    }));
                  }));
    EXPECT_EQ(calls, 0) << "it completed inside of the call that starts it";
  }
  EXPECT_TRUE(run(io));  // Outstanding work: it does not return early.
  EXPECT_EQ(calls, 50);
}

TEST_P(AsyncTest, AStrandKeepsHandlersApartOnAPool) {
  // Fifty requests about one lock, which some stores send one after the other.
  ClientOptions patient;
  patient.request_timeout = 60s;
  Client client = connect(patient);
  asio::thread_pool pool(3);
  const auto strand = asio::make_strand(pool);
  int inside = 0;
  int calls = 0;
  for (int i = 0; i < 200; ++i) {
    async_acquire(client.mutex("n" + std::to_string(i % 4)), {.ttl = 30s},
                  asio::bind_executor(strand, [&](const Result<Lease>& got) {
                    EXPECT_TRUE(got) << got.error().message();
                    EXPECT_EQ(++inside, 1);
                    ++calls;
                    EXPECT_TRUE(strand.running_in_this_thread());
                    --inside;
                  }));
  }
  pool.join();
  EXPECT_EQ(calls, 200);
}

// The client's thread still has the strand in its hands when the pool runs out of work.
TEST_P(AsyncTest, AContextMayEndWithTheLastOperationOnIt) {
  Client client = connect();
  for (int i = 0; i < 100; ++i) {
    bool granted = false;
    asio::thread_pool pool(1);
    async_try_acquire(
        client.mutex("a"), {.ttl = 30s},
        asio::bind_executor(asio::make_strand(pool), [&](const Result<std::optional<Lease>>& got) {
          granted = got.has_value() && got->has_value();
        }));
    pool.join();
    EXPECT_TRUE(granted);
  }
}

TEST_P(AsyncTest, WithoutAnExecutorTheSystemsPoolRunsTheHandler) {
  Client client = connect();
  std::promise<bool> elsewhere;
  async_acquire(client.mutex("a"), {}, [&, mine = std::this_thread::get_id()](Result<Lease> got) {
    elsewhere.set_value(got && std::this_thread::get_id() != mine);
  });
  EXPECT_TRUE(elsewhere.get_future().get());
}

TEST_P(AsyncTest, FuturesHoldResults) {
  Client client = connect();
  std::future<Result<Lease>> got = async_acquire(client.mutex("a"), {}, asio::use_future);
  Result<Lease> lease = got.get();
  ASSERT_TRUE(lease) << lease.error().message();
  std::future<Result<std::optional<Lease>>> tried =
      async_try_acquire(client.mutex("a"), {}, asio::use_future);
  EXPECT_FALSE(tried.get().value());
  std::future<Result<Lease>> refused = async_acquire(client.mutex("a/../b"), {}, asio::use_future);
  EXPECT_TRUE(fails_with(refused.get(), Errc::kInvalidArgument));
  EXPECT_TRUE(async_release(*lease, asio::use_future).get());
}

TEST_P(AsyncTest, ADeferredCallStartsWhenItIsTold) {
  Client client = connect();
  auto later = async_acquire(client.mutex("a"), {}, asio::experimental::deferred);
  EXPECT_TRUE(is_free(client.mutex("a")));
  std::future<Result<Lease>> got = std::move(later)(asio::use_future);
  EXPECT_TRUE(got.get());
}

TEST_P(AsyncTest, TimeAndStopTokensEndWaitsToo) {
  Client client = connect();
  const Lease held = take(client.mutex("a"), {.ttl = 60s});
  std::future<Result<Lease>> timed =
      async_acquire(client.mutex("a"), {.wait = 20ms}, asio::use_future);
  EXPECT_TRUE(fails_with(timed.get(), Errc::kTimedOut));
  std::stop_source stop;
  std::future<Result<Lease>> stopped =
      async_acquire(client.mutex("a"), {.cancel = stop.get_token()}, asio::use_future);
  stop.request_stop();
  EXPECT_TRUE(fails_with(stopped.get(), Errc::kCancelled));
  std::future<Result<Lease>> late =
      async_acquire(client.mutex("a"), {.cancel = stop.get_token()}, asio::use_future);
  EXPECT_TRUE(fails_with(late.get(), Errc::kCancelled));
  EXPECT_TRUE(client.inspect("a").value()->waiters.empty());
}

TEST_P(AsyncTest, EverySignalEndsAWait) {
  Client client = connect();
  const Lease held = take(client.mutex("a"), {.ttl = 60s});
  for (const auto type : {asio::cancellation_type::total, asio::cancellation_type::partial,
                          asio::cancellation_type::terminal}) {
    asio::io_context io;
    asio::cancellation_signal signal;
    int calls = 0;
    async_acquire(client.mutex("a"), {},
                  asio::bind_cancellation_slot(
                      signal.slot(), asio::bind_executor(io, [&](const Result<Lease>& got) {
                        ++calls;
                        EXPECT_TRUE(fails_with(got, Errc::kCancelled));
                        EXPECT_FALSE(signal.slot().has_handler());
                      })));
    EXPECT_TRUE(signal.slot().has_handler());
    signal.emit(type);
    EXPECT_TRUE(run(io));
    EXPECT_EQ(calls, 1);
    signal.emit(type);
    EXPECT_TRUE(client.inspect("a").value()->waiters.empty());
  }
}

TEST_P(AsyncTest, ASignalToARequestThatIsNotUndoneTellsThatItsOutcomeIsUnknown) {
  Client client = connect();
  asio::io_context io;
  asio::cancellation_signal signal;
  Lease lease = take(client.mutex("a"), {.ttl = 60s});
  int calls = 0;
  async_renew(lease, asio::bind_cancellation_slot(
                         signal.slot(), asio::bind_executor(io, [&](const Result<void>& renewed) {
                           ++calls;
                           EXPECT_TRUE(renewed || fails_with(renewed, Errc::kOutcomeUnknown));
                         })));
  signal.emit(asio::cancellation_type::total);  // Not for this one.
  signal.emit(asio::cancellation_type::terminal);
  EXPECT_TRUE(run(io));
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(lease.held());
}

// A grant to a handler that is never called is given back.
TEST_P(AsyncTest, ALeaseNobodyTakesIsReleased) {
  Client client = connect();
  {
    asio::io_context io;
    async_acquire(
        client.mutex("a"), {.ttl = 60s},
        asio::bind_executor(io, [](const Result<Lease>&) { FAIL() << "nobody runs it"; }));
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (client.inspect("a").value().value_or(LockInfo()).holders.empty()) {
      ASSERT_LT(std::chrono::steady_clock::now(), until);
    }
    // One thread delivers: by the time that it has delivered this, it is done with the first.
    EXPECT_TRUE(async_inspect(client, "a", asio::use_future).get());
  }
  EXPECT_TRUE(client.mutex("a").acquire({.wait = kPatience}));
}

// A call under way needs none of the objects that it was started with.
TEST_P(AsyncTest, ACallKeepsWhatItNeeds) {
  asio::io_context io;
  Client observer = connect();
  std::optional<Client> client = connect();
  std::optional<Lease> first = take(observer.mutex("a"), {.ttl = 60s});
  int calls = 0;
  async_acquire(client->mutex("a"), {.ttl = 60s}, asio::bind_executor(io, [&](Result<Lease> got) {
                  ++calls;
                  EXPECT_TRUE(got) << got.error().message();
                }));
  client.reset();
  std::optional<Lease> moved = std::move(first);
  {
    Lease gone = take(observer.mutex("b"), {.ttl = 60s});
    async_release(gone, asio::bind_executor(io, [&](const Result<void>& released) {
                    ++calls;
                    EXPECT_TRUE(released) << released.error().message();
                  }));
  }
  while (calls == 0) io.run_one();
  moved.reset();
  EXPECT_TRUE(run(io));
  EXPECT_EQ(calls, 2);
}

TEST_P(AsyncTest, AMovedLeaseIsRefused) {
  asio::io_context io;
  Lease from = take(connect().mutex("a"));
  const Lease to = std::move(from);
  int refused = 0;
  const auto note = [&](const Result<void>& done) {
    refused += fails_with(done, Errc::kInvalidArgument) ? 1 : 0;
  };
  // NOLINTBEGIN(bugprone-use-after-move)
  async_release(from, asio::bind_executor(io, note));
  async_renew(from, asio::bind_executor(io, note));
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_TRUE(run(io));
  EXPECT_EQ(refused, 2);
  EXPECT_TRUE(to.held());
}

// Takes note of what it gave.
class Counting final : public std::pmr::memory_resource {
 public:
  std::atomic<int> taken{0};
  std::atomic<int> left{0};

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    ++taken;
    ++left;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    --left;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

struct WithAllocator {
  using allocator_type = std::pmr::polymorphic_allocator<std::byte>;
  using executor_type = asio::io_context::executor_type;
  allocator_type get_allocator() const { return allocator_type(memory); }
  executor_type get_executor() const { return io->get_executor(); }
  void operator()(const Result<Lease>& got) const {
    EXPECT_TRUE(got);
    EXPECT_EQ(memory->left, 0);  // Free again before the handler runs.
    ++*calls;
  }
  Counting* memory;
  asio::io_context* io;
  int* calls;
};

TEST_P(AsyncTest, TheHandlersAllocatorIsUsed) {
  Client client = connect();
  asio::io_context io;
  Counting memory;
  int calls = 0;
  async_acquire(client.mutex("a"), {}, WithAllocator{&memory, &io, &calls});
  EXPECT_TRUE(run(io));
  EXPECT_EQ(calls, 1);
  EXPECT_GE(memory.taken, 1);
}

// Counts what is allocated with it.
template <typename T>
struct CountingAllocator {
  using value_type = T;
  explicit CountingAllocator(std::atomic<int>* count) : live(count) {}
  template <typename U>
  CountingAllocator(const CountingAllocator<U>& other) : live(other.live) {}  // NOLINT
  T* allocate(std::size_t n) {
    ++*live;
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* at, std::size_t n) {
    --*live;
    std::allocator<T>().deallocate(at, n);
  }
  template <typename U>
  bool operator==(const CountingAllocator<U>& other) const {
    return live == other.live;
  }
  std::atomic<int>* live;
};

// Asks, when it runs, whether its operation's memory is free.
struct FreeMemoryHandler {
  using allocator_type = CountingAllocator<char>;
  using executor_type = asio::thread_pool::executor_type;
  using cancellation_slot_type = asio::cancellation_slot;
  allocator_type get_allocator() const noexcept { return allocator_type(live); }
  executor_type get_executor() const noexcept { return pool->get_executor(); }
  cancellation_slot_type get_cancellation_slot() const noexcept { return slot; }
  template <typename R>
  void operator()(R&&) {
    if (*live != 0) ++*early;
  }
  std::atomic<int>* live;
  std::atomic<int>* early;
  asio::thread_pool* pool;
  asio::cancellation_slot slot;
};

TEST(AsyncAllocatorTest, TheMemoryIsFreeWhenTheHandlerRunsAlsoWithASlot) {
  constexpr std::size_t kCalls = 2000;
  auto client = Client::connect("memory:");
  ASSERT_TRUE(client);
  std::deque<std::atomic<int>> live(kCalls);
  std::deque<asio::cancellation_signal> signals(kCalls);
  std::atomic<int> early{0};
  asio::thread_pool pool(2);
  for (std::size_t i = 0; i < kCalls; ++i) {
    const FreeMemoryHandler handler{&live[i], &early, &pool, signals[i].slot()};
    if (i % 2 == 0) {
      async_acquire(client->mutex("m" + std::to_string(i)), FreeMemoryHandler(handler));
    } else {
      async_inspect(*client, "x", FreeMemoryHandler(handler));
    }
  }
  pool.join();
  EXPECT_EQ(early, 0);
  for (const std::atomic<int>& count : live) EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace holdfast::testing
