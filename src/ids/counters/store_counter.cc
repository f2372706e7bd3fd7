#include "holdfast/ids/store_counter.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/local_mutex.h"
#include "src/client/ask.h"
#include "src/ids/counters/over_native.h"
#include "src/port/native_counter.h"

namespace holdfast::ids {
namespace {

using base::BootClock;
using std::chrono::milliseconds;

constexpr std::uint32_t kLargestBatch = 10'000;
constexpr std::uint64_t kGreatest = std::numeric_limits<std::int64_t>::max();
// Batches in a row that another connection's cache has made useless.
constexpr int kMostDiscards = 100;

Result<void> check(const StoreCounterOptions& options) {
  if (options.batch == 0 || options.batch > kLargestBatch) {
    return Error(Errc::kInvalidArgument, "the batch of a store counter is 1 to " +
                                             std::to_string(kLargestBatch) + " numbers");
  }
  if (options.request_timeout > milliseconds::zero()) return {};
  return Error(Errc::kInvalidArgument, "the request_timeout of a store counter must be positive");
}

}  // namespace

struct StoreCounter::Impl {
  Impl(std::unique_ptr<port::NativeCounter> native, std::string its_name,
       const StoreCounterOptions& its)
      : options(its), name(std::move(its_name)), counter(std::move(native)) {}

  bool forked() const { return process.forked(); }
  Result<Id> next() HOLDFAST_EXCLUDES(mutex);

  // The rest belongs to the one call that fetches.
  Result<std::vector<std::uint64_t>> fetch();
  Result<port::NativeCounter::Taken> take(base::BootInstant by);
  Error lost(const std::string& what) const;

  const StoreCounterOptions options;
  const std::string name;
  const std::unique_ptr<port::NativeCounter> counter;
  const base::OwnProcess process;

  std::uint64_t floor = 0;                  // Where the counter stood at its highest.
  std::optional<std::uint64_t> high_water;  // The highest number that was put into the buffer.

  base::LocalMutex mutex;
  base::LocalCondition fetched;
  std::vector<std::uint64_t> numbers HOLDFAST_GUARDED_BY(mutex);
  std::size_t used HOLDFAST_GUARDED_BY(mutex) = 0;
  bool fetching HOLDFAST_GUARDED_BY(mutex) = false;
  std::uint64_t tries HOLDFAST_GUARDED_BY(mutex) = 0;
  std::optional<Error> failure HOLDFAST_GUARDED_BY(mutex);  // The last try's.
};

Result<Id> StoreCounter::Impl::next() {
  if (forked()) {
    return Error(Errc::kClosed, "this store counter '" + name +
                                    "' belongs to the parent of a forked process: open it in the "
                                    "child");
  }
  const base::LocalLock lock(mutex);
  const std::uint64_t seen = tries;
  for (;;) {
    if (used < numbers.size()) return Id::of(numbers[used++]);
    if (failure && failure->code() == Errc::kCorruptState) return *failure;  // For good.
    if (!fetching) {
      if (failure && tries != seen) return *failure;  // A try that began while this call waited.
      fetching = true;
      mutex.unlock();
      auto got = fetch();
      mutex.lock();
      fetching = false;
      ++tries;
      failure = got ? std::nullopt : std::optional(got.error());
      if (got) {
        numbers = *std::move(got);
        used = 0;
      }
      fetched.notify_all();
      if (failure) return *failure;
    } else {
      fetched.wait(mutex);
    }
  }
}

Result<std::vector<std::uint64_t>> StoreCounter::Impl::fetch() {
  const base::BootInstant by = BootClock::now() + options.request_timeout;
  for (int tried = 0; tried < kMostDiscards; ++tried) {
    auto taken = take(by);
    if (!taken) {
      if (taken.error().code() != Errc::kOutcomeUnknown) return taken.error();
      return Error(Errc::kUnavailable, taken.error().message() + "; its numbers are left out");
    }
    std::vector<std::uint64_t>& got = taken->numbers;
    if (taken->counter < floor) return lost(std::to_string(taken->counter));
    // Nothing but a cache of another connection explains a lower number of a counter that is right.
    const auto fresh =
        high_water ? std::upper_bound(got.begin(), got.end(), *high_water) : got.begin();
    if (fresh != got.begin() && !counter->caches()) {
      return lost(std::to_string(got.front()));
    }
    floor = taken->counter;
    got.erase(got.begin(), fresh);
    if (got.empty()) continue;
    if (got.back() > kGreatest) {
      return Error(Errc::kUnsupported, "the counter '" + name + "' is beyond 2^63 - 1");
    }
    high_water = got.back();
    return std::move(got);
  }
  return Error(Errc::kUnavailable,
               "the counter '" + name +
                   "' gave old numbers at every try: its connections have caches (CACHE), and a "
                   "pooler mixes them: set CACHE 1");
}

// Near the end a batch may be too large, and one number not.
Result<port::NativeCounter::Taken> StoreCounter::Impl::take(base::BootInstant by) {
  auto taken = counter->take(options.batch, by);
  if (taken || taken.error().code() != Errc::kUnsupported || options.batch == 1) return taken;
  return counter->take(1, by);
}

Error StoreCounter::Impl::lost(const std::string& now) const {
  return {Errc::kCorruptState,
          "the counter '" + name + "' went back: it was at " + std::to_string(floor) +
              " and gave " + now +
              ". Somebody set it back, or the store lost data. Set it above all numbers that were "
              "ever given, then open it again"};
}

StoreCounter::StoreCounter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

StoreCounter::~StoreCounter() {
  if (impl_->forked()) static_cast<void>(impl_.release());  // The connection is the parent's.
}

Result<std::unique_ptr<StoreCounter>> StoreCounterOverNative::open(
    std::unique_ptr<port::NativeCounter> counter, const std::string& name,
    const StoreCounterOptions& options) {
  if (auto good = check(options); !good) return good.error();
  if (options.require_durable && !counter->forgets().empty()) {
    return Error(Errc::kUnsupported, "this store may lose a number that it has answered (" +
                                         counter->forgets() +
                                         "), and require_durable refuses that: take another store");
  }
  auto impl = std::make_unique<StoreCounter::Impl>(std::move(counter), name, options);
  return std::unique_ptr<StoreCounter>(new StoreCounter(std::move(impl)));
}

Result<std::unique_ptr<StoreCounter>> StoreCounter::open(const std::string& url,
                                                         const std::string& name,
                                                         const StoreCounterOptions& options) {
  if (auto good = check(options); !good) return good.error();
  auto counter = client::open_counter(url, name);
  if (!counter) return counter.error();
  return StoreCounterOverNative::open(*std::move(counter), name, options);
}

Result<void> StoreCounter::create(const std::string& url, const std::string& name,
                                  std::uint64_t first) {
  if (first > kGreatest) {
    return Error(Errc::kInvalidArgument, "the first number of a counter is at most 2^63 - 1");
  }
  return client::create_counter(url, name, first);
}

Result<Id> StoreCounter::next() { return impl_->next(); }

IdGuarantees StoreCounter::guarantees() const {
  const bool one_by_one = impl_->options.batch == 1 && !impl_->counter->caches();
  return {.unique_by = UniqueBy::kCounter,
          .order = one_by_one ? IdOrder::kCounter : IdOrder::kObject,
          .survives_restart = true,
          .survives_clock_back = true,
          .survives_pause = true,
          .survives_fork = true,
          .forgets = impl_->counter->forgets()};
}

}  // namespace holdfast::ids
