#include <functional>
#include <future>
#include <memory>

#include "holdfast/detail/async.h"
#include "src/client/registry.h"
#include "src/primitives/client_access.h"
#include "src/session/core.h"
#include "tests/async/scenarios.h"
#include "tests/async/stepping_store.h"
#include "tests/library/fixture.h"

namespace holdfast::testing {
namespace {

using detail::Async;

std::shared_ptr<Steps> steps_of_next_client;

Result<std::unique_ptr<port::Store>> make_with_steps(port::StoreUrl url,
                                                     const port::StoreContext& context) {
  const auto factory = client::find_store(url.scheme);
  if (!factory) return factory.error();
  return SteppingStore::make(
      [&](const port::StoreContext& inner) { return (*factory)(std::move(url), inner); }, context,
      steps_of_next_client);
}

// How a call ended: nullopt is success.
using Ending = std::optional<Error>;

// A call under way. It lets go of what it got before it tells.
struct Started {
  detail::Handle handle;
  std::future<Ending> ending;
};

template <typename T>
class Taker final : public detail::Receiver<T> {
 public:
  std::future<Ending> ending() { return ending_.get_future(); }
  void complete(detail::ReceiverPtr<T>, Result<T> result) override {
    Ending ending;
    if (!result) ending = result.error();
    got_ = std::move(result);
    ending_.set_value(std::move(ending));
  }

 private:
  Result<T> got_ = Error(Errc::kClosed, "");
  std::promise<Ending> ending_;
};

// One waiting call: who is in its way, how it begins, how the way becomes free.
struct Swept {
  std::string lock;  // The lock that must be free in the end.
  std::function<void(Client& holder)> stand_in_the_way;
  std::function<Started(Client&)> begin;
  std::function<void()> make_way;
  int events_before = 0;  // Events of the call before the lock becomes free; unless it ends.
  std::function<void(bool cancelled)> look = nullptr;  // At what the call has left.
};

template <typename T>
Started started(detail::Start<T> start, std::vector<std::shared_ptr<void>>& kept) {
  auto taker = std::make_shared<Taker<T>>();
  auto ending = taker->ending();
  kept.push_back(taker);
  return {start(taker), std::move(ending)};
}

// Everything that one attempt keeps until it has been looked at.
struct Attempted {
  std::vector<std::shared_ptr<void>> kept;
  std::optional<Lease> held;
  std::optional<Lease> reader;
};

using MakeSwept = std::function<Swept(Attempted&, int n)>;

bool is_free_soon(Client& looker, const std::string& lock) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    const auto left = looker.inspect(lock);
    if (!left) return false;
    if (!*left || ((*left)->holders.empty() && (*left)->waiters.empty())) return true;
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(1ms);
  }
}

// Whether it was through before its turn came.
bool sweep_once(const std::string& url, Client& holder, const MakeSwept& make, int n,
                int& cancelled) {
  Attempted attempted;
  Swept swept = make(attempted, n);
  std::mutex mutex;
  detail::Handle handle;
  bool has_begun = false;
  bool is_cancelled = false;
  steps_of_next_client = std::make_shared<Steps>(n, [&] {
    const std::lock_guard lock(mutex);
    is_cancelled = true;
    if (has_begun) Async::cancel(handle);
  });
  auto core =
      session::Core::make(&make_with_steps, port::StoreUrl::parse(url).value(), {url, {}, {}})
          .value();
  Client client = detail::ClientAccess::make(std::move(core));
  swept.stand_in_the_way(holder);
  Started call = swept.begin(client);
  {
    const std::lock_guard lock(mutex);
    handle = call.handle;
    has_begun = true;
    if (is_cancelled) Async::cancel(handle);
  }
  while (steps_of_next_client->count() < swept.events_before &&
         call.ending.wait_for(0ms) != std::future_status::ready) {
    std::this_thread::yield();
  }
  swept.make_way();
  EXPECT_EQ(call.ending.wait_for(kPatience), std::future_status::ready) << "event " << n;
  const Ending ending = call.ending.get();
  if (ending) {
    ++cancelled;
    EXPECT_EQ(ending->code(), Errc::kCancelled) << ending->message();
  }
  if (swept.look) swept.look(ending.has_value());
  attempted.held.reset();
  attempted.reader.reset();
  attempted.kept.clear();
  EXPECT_TRUE(client.close(kPatience));
  EXPECT_TRUE(is_free_soon(holder, swept.lock))
      << "'" << swept.lock << "' was left by a call that was cancelled at event " << n;
  const std::lock_guard lock(mutex);
  return !ending && !is_cancelled;
}

void sweep(const char* what, const std::string& url, Client& holder, const MakeSwept& make) {
  SCOPED_TRACE(what);
  int cancelled = 0;
  int n = 1;
  while (!sweep_once(url, holder, make, n, cancelled)) {
    ASSERT_FALSE(::testing::Test::HasFailure());
    ASSERT_LT(++n, 100) << "it never gets through";
  }
  EXPECT_GE(cancelled, 1);
}

// A call that waits for the lock of that name, which is taken by `hold`.
template <typename T>
MakeSwept waits_for(std::string lock, std::function<Lease(Client&)> hold,
                    std::function<detail::Start<T>(Client&, AcquireOptions)> begin) {
  return [=](Attempted& attempted, int) {
    Swept swept;
    swept.lock = lock;
    swept.stand_in_the_way = [&attempted, hold](Client& holder) { attempted.held = hold(holder); };
    swept.begin = [&attempted, begin](Client& client) {
      auto queued = std::make_shared<std::promise<void>>();
      AcquireOptions options{.ttl = 30s};
      options.on_queued = [queued](std::uint32_t) { queued->set_value(); };
      auto waiting = queued->get_future();
      Started call = started(begin(client, std::move(options)), attempted.kept);
      const auto until = std::chrono::steady_clock::now() + kPatience;
      while (waiting.wait_for(1ms) != std::future_status::ready &&
             call.ending.wait_for(0ms) != std::future_status::ready &&
             std::chrono::steady_clock::now() < until) {
      }
      return call;
    };
    swept.make_way = [&attempted] { EXPECT_TRUE(attempted.held->release()); };
    return swept;
  };
}

Lease exclusively(Client& holder, const std::string& name) {
  return holder.mutex(name).acquire({.ttl = 30s}).value();
}

void sweep_values(const std::string& url, Client& holder) {
  sweep("a latch", url, holder, [&holder](Attempted& attempted, int n) {
    const std::string name = "gate-" + std::to_string(n);
    Swept swept;
    swept.lock = name;
    swept.stand_in_the_way = [](Client&) {};
    swept.begin = [&attempted, name](Client& client) {
      return started(Async::arrive_and_wait(client.latch(name, 2), 1, {}), attempted.kept);
    };
    // Whether the call counted before it was cancelled is not known: so all that is left.
    swept.make_way = [&holder, name] { EXPECT_TRUE(holder.latch(name, 2).count_down(1)); };
    return swept;
  });
}

void sweep_barrier(const std::string& url, Client& holder) {
  sweep("a seat", url, holder,
        waits_for<BarrierSeat>(
            "seats", [](Client& c) { return c.semaphore("seats", 1).acquire().value(); },
            [](Client& c, AcquireOptions options) {
              return Async::join(c.barrier("seats", 1), std::move(options));
            }));

  sweep("a participant", url, holder, [&holder](Attempted& attempted, int n) {
    const std::string name = "step-" + std::to_string(n);
    auto other = std::make_shared<BarrierSeat>(holder.barrier(name, 2).join({.ttl = 30s}).value());
    Swept swept;
    swept.lock = name;
    swept.stand_in_the_way = [](Client&) {};
    swept.events_before = 45;  // It has joined, has arrived, and has looked around.
    swept.begin = [&attempted, name](Client& client) {
      auto seat = std::make_shared<BarrierSeat>(client.barrier(name, 2).join({.ttl = 30s}).value());
      attempted.kept.push_back(seat);
      return started(Async::arrive_and_wait(*seat, {}), attempted.kept);
    };
    swept.make_way = [other] { EXPECT_TRUE(other->arrive_and_leave()); };
    // An arrival counts, or was taken back.
    swept.look = [&holder, name](bool cancelled) {
      const BarrierCount left = holder.barrier(name, 2).count().value();
      EXPECT_EQ(left.generation, cancelled ? 0U : 1U);
      EXPECT_EQ(left.arrived, cancelled ? 1U : 0U);
      EXPECT_FALSE(left.broken);
      if (!holder.guarantees().list) return;
      EXPECT_TRUE(holder.list(name + "/../")->empty()) << "the lock of the record is held";
    };
    return swept;
  });
}

}  // namespace

void sweep_primitives(const std::string& url) {
  Client holder = connect_or_die(url);

  sweep("a reader", url, holder,
        waits_for<Lease>(
            "doc", [](Client& c) { return exclusively(c, "doc"); },
            [](Client& c, AcquireOptions options) {
              return Async::acquire_shared(c.shared_mutex("doc"), std::move(options));
            }));

  sweep("permits", url, holder,
        waits_for<Lease>(
            "slots", [](Client& c) { return c.semaphore("slots", 2).acquire(2).value(); },
            [](Client& c, AcquireOptions options) {
              return Async::acquire(c.semaphore("slots", 2), 1, std::move(options));
            }));

  sweep("an owner", url, holder,
        waits_for<RecursiveLease>(
            "tree", [](Client& c) { return exclusively(c, "tree"); },
            [](Client& c, AcquireOptions options) {
              return Async::acquire(c.recursive_mutex("tree"), Owner("me"), std::move(options));
            }));

  sweep("a stripe", url, holder,
        waits_for<Lease>(
            "stock/0", [](Client& c) { return exclusively(c, "stock/0"); },
            [](Client& c, AcquireOptions options) {
              return Async::acquire_any(c.striped_mutex("stock", 1), "k", std::move(options));
            }));

  // It has the first lock's lease while it waits, and has not asked for the last one.
  for (const char* lock : {"set/a", "set/b", "set/c"}) {
    sweep("several locks", url, holder,
          waits_for<LeaseSet>(
              lock, [](Client& c) { return exclusively(c, "set/b"); },
              [](Client& c, AcquireOptions options) {
                return Async::acquire_all(c, {{"set/c"}, {"set/a"}, {"set/b"}}, std::move(options));
              }));
  }

  sweep("a candidate", url, holder,
        waits_for<Leadership>(
            "leader", [](Client& c) { return exclusively(c, "leader"); },
            [](Client& c, AcquireOptions options) {
              return Async::campaign(c.election("leader"), "me", std::move(options));
            }));

  sweep("an upgrade", url, holder, [](Attempted& attempted, int) {
    Swept swept = waits_for<Lease>(
        "page", [](Client& c) { return c.shared_mutex("page").acquire_shared().value(); },
        [&attempted](Client& c, AcquireOptions options) {
          attempted.reader = c.shared_mutex("page").acquire_shared({.ttl = 30s}).value();
          return Async::upgrade(c.shared_mutex("page"), *attempted.reader, std::move(options));
        })(attempted, 0);
    swept.make_way = [&attempted] {
      EXPECT_TRUE(attempted.held->release());
      EXPECT_TRUE(attempted.reader->held());
    };
    return swept;
  });

  sweep_values(url, holder);
  sweep_barrier(url, holder);
}

void sweep_once_guard(const std::string& url) {
  Client holder = connect_or_die(url);
  if (holder.guarantees().bound_to_client) {
    GTEST_SKIP() << "skipped by capability: what was done is kept for a session's length, and the "
                    "lock is not free before that";
  }

  sweep("a later caller", url, holder, [](Attempted& attempted, int n) {
    const std::string key = "order-" + std::to_string(n);
    auto first = std::make_shared<std::optional<OnceTurn>>();
    Swept swept;
    // It tries, and looks for an outcome and for the holder, twice. Then it waits.
    swept.events_before = 12;
    swept.lock = key;
    swept.stand_in_the_way = [key, first](Client& c) {
      first->emplace(c.once(key, 100ms).begin({.ttl = 30s}).value());
    };
    swept.begin = [&attempted, key](Client& client) {
      return started(Async::begin(client.once(key, 100ms), {.ttl = 30s}), attempted.kept);
    };
    swept.make_way = [first] {
      const Result<void> completed = (*first)->complete("done");
      EXPECT_TRUE(completed) << completed.error().message();
    };
    return swept;
  });
}

}  // namespace holdfast::testing
