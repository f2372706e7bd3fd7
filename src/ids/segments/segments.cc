#include "holdfast/ids/segments.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/jitter.h"
#include "src/base/local_mutex.h"
#include "src/base/thread.h"
#include "src/client/ask.h"
#include "src/ids/segments/bell.h"
#include "src/ids/segments/counter.h"
#include "src/ids/segments/over_records.h"
#include "src/ids/segments/supply.h"

namespace holdfast::ids {
namespace {

using base::BootClock;
using std::chrono::milliseconds;

constexpr milliseconds kOperation{10'000};  // For what an operator asks.
// Between tries while the store is away.
constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{2'000};

Result<void> check(const SegmentsOptions& options) {
  const auto unfit = [](const char* what) { return Error(Errc::kInvalidArgument, what); };
  if (options.step_min == 0 || options.step_min > options.step_max ||
      options.step_max > std::numeric_limits<std::uint32_t>::max()) {
    return unfit("the steps of segments need 1 <= step_min <= step_max <= 2^32 - 1");
  }
  if (!(options.fill_level > 0 && options.fill_level <= 1)) {
    return unfit("the fill_level of segments must be above 0 and at most 1");
  }
  if (options.wanted_duration <= milliseconds::zero() ||
      options.request_timeout <= milliseconds::zero()) {
    return unfit("wanted_duration and request_timeout of segments must be positive");
  }
  return {};
}

}  // namespace

struct Segments::Impl {
  Impl(std::unique_ptr<port::Records> records, SegmentsHead head, const SegmentsOptions& its)
      : options(its),
        name(head.name),
        forgets(records->forgets()),
        supply(std::move(records), std::move(head), options,
               [](std::chrono::microseconds time) { std::this_thread::sleep_for(time); }) {}

  bool forked() const { return process.forked(); }
  Error closed() const {
    return {Errc::kClosed, forked() ? "these segments of '" + name +
                                          "' belong to the parent of a forked process: open them "
                                          "in the child"
                                    : "these segments of '" + name + "' are closed"};
  }

  Result<Run> take(std::uint32_t wanted);
  Result<void> wait_for_range() HOLDFAST_EXCLUDES(mutex);
  void work() HOLDFAST_EXCLUDES(mutex);
  bool fetch() HOLDFAST_EXCLUDES(mutex);
  void close() HOLDFAST_EXCLUDES(mutex);

  const SegmentsOptions options;
  const std::string name;
  const std::string forgets;
  const base::OwnProcess process;
  Supply supply;
  Bell bell;
  std::thread thread;

  base::LocalMutex mutex;
  base::LocalCondition tried;  // A request has ended, or the object.
  std::uint64_t tries HOLDFAST_GUARDED_BY(mutex) = 0;
  std::optional<Error> failure HOLDFAST_GUARDED_BY(mutex);  // The last try's.
  std::optional<Error> ended HOLDFAST_GUARDED_BY(mutex);    // For good.
  bool stopping HOLDFAST_GUARDED_BY(mutex) = false;
};

Result<Run> Segments::Impl::take(std::uint32_t wanted) {
  if (forked()) return closed();
  Run run = supply.take(wanted);
  while (run.count == 0) {
    if (auto more = wait_for_range(); !more) return more.error();
    run = supply.take(wanted);
  }
  if (run.wants_fetch) bell.ring();
  return run;
}

Result<void> Segments::Impl::wait_for_range() {
  const base::LocalLock lock(mutex);
  std::uint64_t seen = tries;
  if (!ended) bell.ring();
  for (;;) {
    if (ended) return *ended;
    if (supply.has_next()) return {};
    if (tries != seen && failure) return *failure;
    if (tries != seen) {  // Others have used up what it brought.
      seen = tries;
      bell.ring();
    }
    tried.wait(mutex);
  }
}

void Segments::Impl::work() {
  milliseconds pause{};
  base::Jitter jitter;
  for (;;) {
    bell.wait(std::chrono::ceil<milliseconds>(jitter.around(pause)));
    {
      const base::LocalLock lock(mutex);
      if (stopping) return;
    }
    if (fetch()) {
      pause = std::clamp(2 * pause, kFirstPause, kLongestPause);
    } else {
      pause = milliseconds::zero();
    }
  }
}

// Whether to try again without being asked.
bool Segments::Impl::fetch() {
  const base::BootInstant now = BootClock::now();
  const auto fetched = supply.fetch(now, now + options.request_timeout);
  const base::LocalLock lock(mutex);
  ++tries;
  failure = fetched ? std::nullopt : std::optional(fetched.error());
  // The numbers left may be given to others, too, after a loss of data.
  if (failure && failure->code() == Errc::kCorruptState && !ended) {
    ended = failure;
    supply.shut();
  }
  tried.notify_all();
  if (ended) return supply.must_stop();
  return failure && failure->code() == Errc::kUnavailable;
}

void Segments::Impl::close() {
  const base::LocalLock lock(mutex);
  stopping = true;
  ended = closed();
  supply.shut();
  tried.notify_all();
  bell.ring();
}

Segments::Segments(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Segments::~Segments() {
  if (impl_->forked()) {  // The thread and the connection are the parent's.
    static_cast<void>(impl_.release());
    return;
  }
  close();
  impl_->thread.join();
}

Result<std::unique_ptr<Segments>> SegmentsOverRecords::open(std::unique_ptr<port::Records> records,
                                                            const std::string& name,
                                                            const SegmentsOptions& options) {
  if (auto good = check(options); !good) return good.error();
  if (options.require_durable && !records->forgets().empty()) {
    return Error(Errc::kUnsupported, "this store may lose a range that it has answered (" +
                                         records->forgets() +
                                         "), and require_durable refuses that: take another store");
  }
  const base::BootInstant by = BootClock::now() + options.request_timeout;
  auto head = read_segments_head(*records, name, by);
  if (!head) return head.error();
  auto impl = std::make_unique<Segments::Impl>(std::move(records), *std::move(head), options);
  if (auto looked = impl->supply.look(by); !looked) return looked.error();
  impl->thread = base::start_thread("hf-segments", [its = impl.get()] { its->work(); });
  return std::unique_ptr<Segments>(new Segments(std::move(impl)));
}

Result<std::unique_ptr<Segments>> Segments::open(const std::string& url, const std::string& name,
                                                 const SegmentsOptions& options) {
  auto records = client::open_records(url);
  if (!records) return records.error();
  return SegmentsOverRecords::open(*std::move(records), name, options);
}

Result<void> Segments::create(const std::string& url, const std::string& name,
                              const SegmentsSpec& spec) {
  const auto records = client::open_records(url);
  if (!records) return records.error();
  return create_segments(**records, name, spec, BootClock::now() + kOperation);
}

Result<void> Segments::set_floor(const std::string& url, const std::string& name,
                                 std::uint64_t floor, const std::string& reason) {
  const auto records = client::open_records(url);
  if (!records) return records.error();
  return set_segments_floor(**records, name, floor, reason, BootClock::now() + kOperation);
}

Result<SegmentsStatus> Segments::status(const std::string& url, const std::string& name) {
  const auto records = client::open_records(url);
  if (!records) return records.error();
  return segments_status(**records, name, BootClock::now() + kOperation);
}

Result<Id> Segments::next() {
  // The usual case by itself: a Result of more than the number costs a third of the time.
  if (!impl_->forked()) [[likely]] {
    const Slots::Look seen = impl_->supply.slots.look_likely();
    if (seen.left() > 0 && !seen.reaches_level(1) && impl_->supply.slots.claim(seen, 1)) {
      return Id::of(seen.first + seen.offset());
    }
  }
  const auto run = impl_->take(1);
  if (!run) return run.error();
  return Id::of(run->first);
}

Result<std::size_t> Segments::next_batch(std::span<std::uint64_t> into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const std::size_t wanted = std::min<std::size_t>(into.size() - done, UINT32_MAX);
    const auto run = impl_->take(static_cast<std::uint32_t>(wanted));
    if (!run) {
      if (done == 0) return run.error();
      break;
    }
    for (std::uint32_t i = 0; i < run->count; ++i) into[done++] = run->first + i;
  }
  return done;
}

void Segments::close() {
  if (!impl_->forked()) impl_->close();
}

IdGuarantees Segments::guarantees() const {
  return {.unique_by = UniqueBy::kCounter,
          .order = IdOrder::kObject,
          .survives_restart = true,
          .survives_clock_back = true,
          .survives_pause = true,
          .survives_fork = true,
          .forgets = impl_->forgets};
}

std::uint64_t Segments::step() const { return impl_->supply.step(); }

}  // namespace holdfast::ids
