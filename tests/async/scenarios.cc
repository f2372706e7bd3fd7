#include "tests/async/scenarios.h"

#include <map>

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include "holdfast/asio.h"
#include "tests/library/fixture.h"

namespace holdfast::testing {
namespace {

// As long as something happens it may go on: the time that a host is slow proves nothing.
bool run_while_it_moves(asio::io_context& io) {
  while (!io.stopped()) {
    if (io.run_one_for(60s) == 0 && !io.stopped()) return false;
  }
  return true;
}

// Thousands of requests at once: the last one's turn comes late on a slow host, which proves
// nothing. The test's own limit ends it.
constexpr auto kNeverLate = 300s;
ClientOptions patient() {
  ClientOptions options;
  options.request_timeout = kNeverLate;
  return options;
}

// The coroutines of one name share this; all run on one thread.
struct Contended {
  int holders = 0;
  int grants = 0;
  Token newest{};
};

asio::awaitable<void> take_once(Mutex mutex, Contended& place, int& done) {
  AcquireOptions options;
  options.ttl = kNeverLate;
  Result<Lease> lease = co_await async_acquire(mutex, options, asio::use_awaitable);
  if (!lease) {
    ADD_FAILURE() << lease.error().message();
    co_return;
  }
  EXPECT_EQ(++place.holders, 1) << mutex.name();
  EXPECT_LT(place.newest, lease->token());
  EXPECT_TRUE(lease->held());
  place.newest = lease->token();
  ++place.grants;
  co_await asio::post(asio::use_awaitable);  // The others may try.
  EXPECT_EQ(--place.holders, 0);
  Result<void> released = co_await async_release(*lease, asio::use_awaitable);
  EXPECT_TRUE(released) << released.error().message();
  ++done;
}

// Nobody holds or waits.
bool is_idle(Client client, const std::string& name) {
  const auto info = client.inspect(name);
  EXPECT_TRUE(info) << info.error().message();
  return info && (!*info || ((*info)->holders.empty() && (*info)->waiters.empty()));
}

std::size_t waiters(Client client, const std::string& name) {
  const auto info = client.inspect(name);
  return info && *info ? (*info)->waiters.size() : 0;
}

// True when the wait was cancelled.
bool signal_after(Client& holder, Client& waiter, std::chrono::microseconds delay) {
  asio::io_context io;
  asio::cancellation_signal signal;
  std::optional<Result<Lease>> answer;
  Lease held = holder.mutex("signalled").acquire({.ttl = 30s}).value();
  async_acquire(
      waiter.mutex("signalled"), {.ttl = 30s},
      asio::bind_cancellation_slot(signal.slot(), asio::bind_executor(io, [&](Result<Lease> got) {
                                     EXPECT_FALSE(answer) << "it completed twice";
                                     answer.emplace(std::move(got));
                                   })));
  held.release().value();
  const auto until = base::BootClock::now() + delay;
  while (base::BootClock::now() < until) io.poll();
  signal.emit(asio::cancellation_type::total);
  EXPECT_TRUE(run_while_it_moves(io));
  EXPECT_TRUE(answer);
  if (!answer) return false;
  const bool cancelled = !*answer;
  if (cancelled) {
    EXPECT_EQ(answer->error().code(), Errc::kCancelled) << answer->error().message();
  } else {
    EXPECT_TRUE((*answer)->release());
  }
  EXPECT_TRUE(is_idle(holder, "signalled")) << "after " << delay.count() << " us";
  return cancelled;
}

}  // namespace

void sweep_signals(const std::string& url, int rounds) {
  Client holder = connect_or_die(url);
  Client waiter = connect_or_die(url);
  for (int round = 0; round < rounds; ++round) {
    signal_after(holder, waiter, std::chrono::microseconds(3 * round));
    ASSERT_FALSE(::testing::Test::HasFailure()) << "round " << round;
  }
  // However slow the host is, it ends by being granted.
  auto delay = std::chrono::microseconds(100);
  while (signal_after(holder, waiter, delay)) {
    ASSERT_LT(delay, kPatience);
    delay *= 2;
  }
}

void contend(const std::string& url, int coroutines, int names) {
  asio::io_context io(1);
  Client client = connect_or_die(url, patient());
  std::vector<Contended> places(static_cast<std::size_t>(names));
  int done = 0;
  for (int i = 0; i < coroutines; ++i) {
    const int which = i % names;
    asio::co_spawn(io,
                   take_once(client.mutex("crowd/" + std::to_string(which)),
                             places[static_cast<std::size_t>(which)], done),
                   asio::detached);
  }
  ASSERT_TRUE(run_while_it_moves(io)) << "it stands still after " << done << " of " << coroutines;
  EXPECT_EQ(done, coroutines);
  for (const Contended& place : places) EXPECT_EQ(place.grants, coroutines / names);
  if (!client.guarantees().list) return;
  const auto left = client.list("crowd/");
  ASSERT_TRUE(left) << left.error().message();
  EXPECT_TRUE(left->empty()) << left->front().name;
}

void close_while_waiting(const std::string& url, int waits) {
  asio::io_context io;
  Client holder = connect_or_die(url, patient());
  Client closed = connect_or_die(url, patient());
  const Lease held = holder.mutex("closing").acquire({.ttl = 60s}).value();
  std::vector<int> answers(static_cast<std::size_t>(waits));
  for (int& answer : answers) {
    async_acquire(closed.mutex("closing"), {.ttl = 60s},
                  asio::bind_executor(io, [&answer](const Result<Lease>& got) {
                    ++answer;
                    EXPECT_TRUE(fails_with(got, Errc::kClosed));
                  }));
  }
  std::size_t queued = 0;
  auto moved = std::chrono::steady_clock::now();
  while (queued < answers.size()) {
    const std::size_t now_queued = waiters(holder, "closing");
    if (now_queued != queued) moved = std::chrono::steady_clock::now();
    queued = now_queued;
    ASSERT_LT(std::chrono::steady_clock::now() - moved, kPatience) << queued << " wait";
  }
  EXPECT_EQ(io.poll(), 0U);
  EXPECT_TRUE(closed.close(60s));
  EXPECT_TRUE(run_while_it_moves(io));
  for (const int answer : answers) EXPECT_EQ(answer, 1);
  EXPECT_EQ(waiters(holder, "closing"), 0U);
  // From then on every call is refused, on its executor.
  io.restart();
  int refused = 0;
  async_acquire(closed.mutex("closing"), {}, asio::bind_executor(io, [&](const Result<Lease>& got) {
                  refused += fails_with(got, Errc::kClosed) ? 1 : 0;
                }));
  EXPECT_EQ(refused, 0);
  EXPECT_TRUE(run_while_it_moves(io));
  EXPECT_EQ(refused, 1);
}

}  // namespace holdfast::testing
