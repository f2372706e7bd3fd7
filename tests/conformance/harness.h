// The conformance suite needs this of a store; short helpers drive it.
//
// A Site is one place where locks live (a hub in memory, a database file): it opens any number of
// clients on the same locks. A Client is a store object with a loop of its own, driven one call at
// a time; it checks by itself that every completion comes exactly once and on the loop.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/port/registry.h"
#include "src/port/store.h"

namespace asio {
class io_context;
}

namespace holdfast::testing {

using namespace std::chrono_literals;
using machine::AcquisitionId;
using machine::Duration;
using machine::Mode;
using machine::Token;
using port::AcquisitionState;
using port::AcquisitionStatus;
using port::EndStatus;
using port::Push;

// No store may need this long for anything; a test that waits so long fails.
constexpr auto kPatience = 10s;

// A thread that runs an event loop.
class TestLoop final : public port::Loop {
 public:
  TestLoop();
  ~TestLoop() override;  // Runs what was posted to its end.

  void post(port::Task task) override;
  asio::io_context* io() { return io_.get(); }
  bool on_loop() const { return std::this_thread::get_id() == thread_.get_id(); }
  // Holds the loop up until the result is destroyed, so that nothing is delivered meanwhile.
  std::shared_ptr<void> hold_up();

 private:
  std::unique_ptr<asio::io_context> io_;
  std::shared_ptr<void> work_;  // Keeps the loop running.
  std::thread thread_;
};

// Collects what a client was told without asking.
class Inbox final : public port::Listener {
 public:
  explicit Inbox(TestLoop& loop) : loop_(loop) {}
  void on_push(const Push& push) override;

  // The next push about `id`, taken out; nullopt after the time.
  std::optional<Push> next(const AcquisitionId& id, std::chrono::milliseconds wait = kPatience);
  std::size_t count(const AcquisitionId& id);

 private:
  TestLoop& loop_;
  std::mutex mutex_;
  std::condition_variable condition_;
  std::map<AcquisitionId, std::deque<Push>> pushes_;
};

// A place where locks live.
class Site {
 public:
  virtual ~Site() = default;
  virtual Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) = 0;
  // Lets that much of the store's time go by.
  virtual void pass(Duration time) = 0;
  // Everybody has closed: forgets whatever a restart of the store forgets.
  virtual void restart() {}
  // Requests may arrive after the client gave them up, or the store has a net against it.
  virtual bool refuses_late_requests() const { return true; }
  // The locks are Holdfast's own, with owners and breaks; or in a form that other programs have.
  virtual bool own_form() const { return true; }
  // An acquire is answered by the place where the locks live, not first by one in front of it.
  virtual bool decides_at_once() const { return true; }
  // inspect() knows all who wait.
  virtual bool shows_waiters() const { return true; }
  // The store shows who holds a lock.
  virtual bool shows_holders() const { return true; }
  // A client may hold hundreds of locks. Elsewhere each takes a connection.
  virtual bool holds_many() const { return true; }
  // The store knows who waits, and hands on. Elsewhere clients ask again and again.
  virtual bool keeps_waiters() const { return true; }
  // Clients that watch a value are told that it was set. Elsewhere they look again and again.
  virtual bool tells_values() const { return true; }
  // A holder is told of a break at once. Elsewhere its next renewal tells it.
  virtual bool tells_broken_holders() const { return true; }
};

struct StoreUnderTest {
  std::function<std::unique_ptr<Site>()> injected;  // Time passes when the test says so.
  std::function<std::unique_ptr<Site>()> real;      // As users have it.
  // Why there can be none here: its cases are skipped then, and say so.
  std::function<std::optional<std::string>()> unavailable{};

  friend void PrintTo(const StoreUnderTest&, std::ostream* out) { *out << "the store"; }
};

struct Request : port::AcquireRequest {
  Request(std::string lock, AcquisitionId acquisition, Mode wanted = Mode::exclusive());
  Request& no_wait() { return may_wait = false, *this; }
  Request& upgrading(AcquisitionId base) { return upgrade_of = base, *this; }
  Request& leases(Duration holder, Duration waiter) {
    return ttl = holder, waiter_ttl = waiter, *this;
  }
  Request& limit(std::uint32_t waiters) { return max_waiters = waiters, *this; }
};

constexpr Duration kTtl = 30s;
constexpr Duration kWaiterTtl = 5s;

class Client {
 public:
  explicit Client(Site& site, std::string owner);
  ~Client();

  // --- One call each, waited for.
  Result<AcquisitionState> acquire(Request request);
  Result<port::Store::Grants> acquire_all(std::vector<Request> requests);
  Result<std::vector<Result<EndStatus>>> release_all(
      std::vector<std::pair<std::string, AcquisitionId>> tickets);
  Result<AcquisitionState> renew(const std::string& name, AcquisitionId id, std::uint64_t seq,
                                 Duration ttl = kTtl, Duration waiter_ttl = kWaiterTtl);
  Result<std::vector<Result<AcquisitionState>>> renew(std::vector<port::RenewItem> items);
  Result<bool> keep(const std::string& name, AcquisitionId id, std::uint64_t seq, Duration ttl,
                    std::optional<std::string> value = std::nullopt);
  Result<EndStatus> release(const std::string& name, AcquisitionId id, bool others_wait = false);
  Result<EndStatus> cancel(const std::string& name, AcquisitionId id);
  Result<AcquisitionState> downgrade(const std::string& name, AcquisitionId id);
  Result<std::optional<LockInfo>> inspect(const std::string& name);
  Result<std::vector<LockInfo>> list(const std::string& prefix, std::size_t limit = 1000);
  Result<port::WatchHandle> watch(const std::string& prefix, port::EventSink sink);
  Result<bool> break_lock(const std::string& name, Token token, const std::string& reason = {});
  Result<bool> set_value(const std::string& name, AcquisitionId id, std::string value);
  Result<std::string> get_value(const std::string& name);
  Result<bool> resize(const std::string& name, AcquisitionId id, std::uint32_t capacity);
  Result<std::vector<Finding>> probe();

  // On this thread; nullopt: the store has no such form. One that is busy with something of its own
  // at this moment may decline, and is asked again when it is done.
  std::optional<Result<AcquisitionState>> acquire_inline(const Request& request);
  std::optional<Result<port::Store::Grants>> acquire_all_inline(std::vector<Request> requests);
  std::optional<Result<EndStatus>> release_inline(const std::string& name, AcquisitionId id);

  // Sends, and gives the answer later.
  std::future<Result<AcquisitionState>> start_acquire(Request request);

  void close(std::chrono::milliseconds limit = kPatience);

  // The number of that acquisition: the next one when it is asked for the first time.
  std::uint64_t issue_of(AcquisitionId id);

  port::Store& store() { return *store_; }
  TestLoop& loop() { return loop_; }
  Inbox& inbox() { return inbox_; }

 private:
  void complete(Request& request);
  std::vector<port::AcquireRequest> completed(std::vector<Request> requests);
  template <typename T>
  std::pair<port::Done<T>, std::future<Result<T>>> expect_one();
  template <typename T>
  static Result<T> wait_for(std::future<Result<T>> answer);

  // The loop goes first: what is still in it may be for the inbox.
  Inbox inbox_{loop_};
  TestLoop loop_;
  std::string owner_;
  std::unique_ptr<port::Store> store_;
  std::map<AcquisitionId, std::uint64_t> issues_;
  bool closed_ = false;
};

base::BootInstant soon();

// Every suite of the conformance tests begins here.
class StoreConformance : public ::testing::TestWithParam<StoreUnderTest> {
 protected:
  void SetUp() override;
  void TearDown() override;
  virtual std::unique_ptr<Site> make_site() { return GetParam().injected(); }

  Client& client(const std::string& owner = "alice");  // Opened when first named.
  void restart();                                      // Once everybody has closed.
  AcquisitionId fresh() { return {0xC0'FFEE, ++last_id_}; }
  void pass(Duration time) { site_->pass(time); }
  const Guarantees& promised() const { return promised_; }

  // Words for what most tests expect.
  static ::testing::AssertionResult holds(const Result<AcquisitionState>& result);
  static ::testing::AssertionResult waits(const Result<AcquisitionState>& result);
  static ::testing::AssertionResult is_busy(const Result<AcquisitionState>& result);
  static ::testing::AssertionResult is_gone(const Result<AcquisitionState>& result);
  static ::testing::AssertionResult ends(const Result<EndStatus>& result, EndStatus how);
  template <typename T>
  static ::testing::AssertionResult fails(const Result<T>& result, Errc code) {
    if (result) return ::testing::AssertionFailure() << "it did not fail";
    if (result.error().code() == code) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << result.error().message();
  }

  // Waits in the queue until it is granted, which the test's time limits.
  ::testing::AssertionResult is_granted(const std::string& owner, const Request& request,
                                        std::chrono::seconds within) {
    const auto until = std::chrono::steady_clock::now() + within;
    auto state = client(owner).acquire(request);
    for (std::uint64_t beat = 1; state && state->status == AcquisitionStatus::kWaiting; ++beat) {
      if (std::chrono::steady_clock::now() > until) {
        return ::testing::AssertionFailure() << "it was not granted in time";
      }
      client(owner).inbox().next(request.id, 300ms);
      state = client(owner).renew(request.name, request.id, beat, request.ttl, request.waiter_ttl);
    }
    return holds(state);
  }

  std::unique_ptr<Site> site_;

 private:
  std::map<std::string, std::unique_ptr<Client>> clients_;
  std::uint64_t last_id_ = 0;
  Guarantees promised_;
};

// A line in the test's output that says what was not tested, and why.
#define HOLDFAST_NEEDS(condition, capability) \
  if (!(condition)) GTEST_SKIP() << "skipped by capability: " capability

#define HOLDFAST_NEEDS_OWN_FORM()                                                            \
  HOLDFAST_NEEDS(site_->own_form(), "locks in another program's form have no owners and no " \
                                    "breaks")

#define HOLDFAST_NEEDS_MANY_LOCKS() \
  HOLDFAST_NEEDS(site_->holds_many(), "each lock of a client takes one of its few connections")

#define HOLDFAST_NEEDS_KEPT_WAITERS() \
  HOLDFAST_NEEDS(site_->keeps_waiters(), "clients wait by themselves, and decide what they hold")

// For cases that let leases run out: those of a session run out with it, together.
#define HOLDFAST_NEEDS_OWN_LEASES() \
  HOLDFAST_NEEDS(!promised().bound_to_client, "leases end with their client's session")

class IdempotenceConformance : public StoreConformance {};
class QueueConformance : public StoreConformance {};
class LeaseConformance : public StoreConformance {};
class ModesConformance : public StoreConformance {};
class MultiConformance : public StoreConformance {};
class TokenConformance : public StoreConformance {};
class AdminConformance : public StoreConformance {};
class NamesConformance : public StoreConformance {};
class CompletionConformance : public StoreConformance {};

// With the store's own clock.
class LiveConformance : public StoreConformance {
 protected:
  std::unique_ptr<Site> make_site() override { return GetParam().real(); }
};

// Leases that outlive their client.
class KeptConformance : public LiveConformance {
 protected:
  void SetUp() override {
    LiveConformance::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    HOLDFAST_NEEDS(!promised().ends_with_client, "no lease outlives its client");
  }
  // One that ends within the test, and one that does not.
  Duration shortest() const { return std::max<Duration>(promised().min_ttl, 2s); }
  static constexpr Duration kLong = 120s;

  Request kept(const std::string& name, AcquisitionId id, Duration ttl = kLong) {
    Request request = Request(name, id).leases(ttl, std::max<Duration>(shortest(), kWaiterTtl));
    request.outlives_client = true;
    return request;
  }
  Result<AcquisitionState> adopt(const std::string& owner, const std::string& name,
                                 AcquisitionId id, std::uint64_t seq, Duration ttl = kLong) {
    auto results = client(owner).renew({{name, id, seq, ttl, kWaiterTtl, {}, /*adopts=*/true}});
    if (!results) return results.error();
    return results->front();
  }
  ::testing::AssertionResult is_held(const std::string& name) {
    Request one(name, fresh());
    return is_busy(client("onlooker").acquire(one.no_wait().leases(kLong, kLong)));
  }
  ::testing::AssertionResult comes_free(const std::string& name, std::chrono::seconds within) {
    return is_granted("next", Request(name, fresh()).leases(kLong, kLong), within);
  }
};

#define HOLDFAST_INSTANTIATE_ONE(Name, Suite, under_test)              \
  INSTANTIATE_TEST_SUITE_P(Name, Suite, ::testing::Values(under_test), \
                           [](auto) { return std::string("Store"); })

// The one line that a store writes.
#define HOLDFAST_INSTANTIATE_CONFORMANCE(Name, under_test)            \
  HOLDFAST_INSTANTIATE_ONE(Name, IdempotenceConformance, under_test); \
  HOLDFAST_INSTANTIATE_ONE(Name, QueueConformance, under_test);       \
  HOLDFAST_INSTANTIATE_ONE(Name, LeaseConformance, under_test);       \
  HOLDFAST_INSTANTIATE_ONE(Name, ModesConformance, under_test);       \
  HOLDFAST_INSTANTIATE_ONE(Name, MultiConformance, under_test);       \
  HOLDFAST_INSTANTIATE_ONE(Name, TokenConformance, under_test);       \
  HOLDFAST_INSTANTIATE_ONE(Name, AdminConformance, under_test);       \
  HOLDFAST_INSTANTIATE_ONE(Name, NamesConformance, under_test);       \
  HOLDFAST_INSTANTIATE_ONE(Name, CompletionConformance, under_test);  \
  HOLDFAST_INSTANTIATE_ONE(Name, KeptConformance, under_test);        \
  HOLDFAST_INSTANTIATE_ONE(Name, LiveConformance, under_test)

}  // namespace holdfast::testing
