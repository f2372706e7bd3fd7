#include "holdfast/ids/snowflake.h"

#include <dlfcn.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>

#include "src/base/abandon.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/local_mutex.h"

namespace holdfast::ids {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A tick of the coarse clock is 10 ms at most (CONFIG_HZ=100), so what was read in it is that old.
constexpr nanoseconds kTick = milliseconds(10);

class MachineClock final : public IdClock {
 public:
  Reading read() override {
    return {base::wall_now().time_since_epoch(), base::BootClock::now().time_since_epoch()};
  }
  std::int64_t tick() override { return machine_tick(); }
  // The scheduler wakes up to a tenth of a millisecond late: the rest is spent turning.
  void sleep(nanoseconds time) override {
    constexpr nanoseconds kLate = std::chrono::microseconds(100);
    if (time <= kLate) return;
    const auto sleep = (time - kLate).count();
    timespec ts{.tv_sec = sleep / 1'000'000'000, .tv_nsec = sleep % 1'000'000'000};
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, nullptr);
  }
};

std::string ms_text(milliseconds time) { return std::to_string(time.count()) + " ms"; }

Error unfit(const std::string& what) { return {Errc::kInvalidArgument, what}; }

}  // namespace

constinit std::atomic<int (*)(clockid_t, timespec*)> IdClock::read_clock{&::clock_gettime};

IdClock& IdClock::machine() {
  static MachineClock clock;
  [[maybe_unused]] static const bool near = [] {
    // The kernel's page counts as a loaded library. This never loads a file.
    void* const page = ::dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (page == nullptr) return false;
    const auto read =
        reinterpret_cast<decltype(&::clock_gettime)>(::dlsym(page, "__vdso_clock_gettime"));
    timespec now{};
    if (read == nullptr || read(CLOCK_REALTIME_COARSE, &now) != 0) return false;
    read_clock = read;
    return true;
  }();
  return clock;
}

ClockPolicy ClockPolicy::logical() { return {}; }

ClockPolicy ClockPolicy::refuse() { return {.back = Back::kRefuse}; }

ClockPolicy ClockPolicy::wait(milliseconds at_most) {
  return {.back = Back::kWait, .back_at_most = at_most};
}

ClockPolicy ClockPolicy::step_sequence(std::uint32_t step) {
  return {.back = Back::kRounds, .round_size = step};
}

ClockPolicy ClockPolicy::extension_bits(int bits, milliseconds small) {
  const bool sensible = bits >= 1 && bits <= 16;
  return {.back = Back::kRounds,
          .back_at_most = small,
          .rounds = sensible ? std::uint32_t{1} << bits : 1};
}

ClockPolicy ClockPolicy::borrow(milliseconds at_most) const {
  ClockPolicy borrowing = *this;
  borrowing.borrow_at_most = at_most;
  return borrowing;
}

std::optional<milliseconds> ClockPolicy::ahead_at_most(const Layout& layout) const {
  if (back == Back::kLogical) return std::nullopt;
  return borrow_at_most - borrow_at_most % layout.spec().unit;
}

// The state is one word: (time + 1) << sequence_bits | sequence of the last id. So "nothing yet" is
// unit -1 with a full sequence. Whoever swaps it owns the sequence numbers in between.
struct Snowflake::Impl {
  struct Run {
    std::int64_t time = 0;
    std::uint64_t first = 0;
    std::uint32_t count = 0;
  };

  explicit Impl(SnowflakeOptions its)
      : options(std::move(its)),
        layout(options.layout),
        clock(options.clock != nullptr ? *options.clock : IdClock::machine()),
        real(options.clock == nullptr),
        logical(options.policy.back == ClockPolicy::Back::kLogical),
        worker_mask(layout.place_worker(options.worker)),
        bits(layout.sequence_bits()),
        mask((std::uint64_t{1} << bits) - 1),
        last_time(layout.last_unit()),
        borrow(options.policy.borrow_at_most / layout.spec().unit) {}

  Result<void> begin();
  Result<Run> reserve(std::uint32_t wanted);
  // The sequence number is above zero, and so is the id.
  static constexpr std::uint64_t kNone = 0;
  std::uint64_t next_in_unit();
  Result<void> look(std::int64_t tick);
  Result<void> full(std::int64_t next);
  Result<void> gone_back();
  Result<void> next_round(std::int64_t unit) HOLDFAST_EXCLUDES(mutex);
  Result<void> ended(std::int64_t unit);

  std::int64_t tick() { return real ? IdClock::machine_tick() : clock.tick(); }
  std::uint64_t packed(std::int64_t time, std::uint64_t sequence) const {
    return static_cast<std::uint64_t>(time + 1) << bits | sequence;
  }
  std::int64_t time_of(std::uint64_t word) const {
    return static_cast<std::int64_t>(word >> bits) - 1;
  }
  // The sequence numbers that the round of this one has.
  std::uint64_t round_begin(std::uint64_t sequence) const {
    return round_size == 0 ? 0 : sequence / round_size * round_size;
  }
  std::uint64_t round_end(std::uint64_t begin) const {
    return round_size == 0 ? mask : begin + round_size - 1;
  }
  milliseconds length(std::int64_t units) const { return layout.spec().unit * units; }

  const SnowflakeOptions options;
  const Layout layout;
  IdClock& clock;
  const bool real;
  const bool logical;
  const std::uint64_t worker_mask;
  const int bits;
  const std::uint64_t mask;
  const std::int64_t last_time;  // The layout's.
  const std::int64_t borrow;     // Units.
  const base::OwnProcess process;
  std::uint64_t round_size = 0;  // A power of two; 0: the policy has no rounds.
  std::uint64_t round_mask = 0;  // The bits of a place within a round, or within the sequence.

  alignas(64) std::atomic<std::uint64_t> state{0};
  // The state that the last swap left, most likely: a processor reads it sooner than a word that it
  // has just swapped. A call that starts from an old value learns of it: its swap fails.
  alignas(64) std::atomic<std::uint64_t> likely{0};
  // The reading within `seen_tick`. A thread that stalled may put older values back: the time
  // below the last id's is looked at again before it counts.
  alignas(64) std::atomic<std::int64_t> seen_tick{0};
  std::atomic<std::int64_t> now{-1};
  std::atomic<std::int64_t> now_ns{0};  // The wall clock that `now` was made of.
  // Within `seen_tick`, next_in_unit() may go on in these states: from `now` up to what is
  // reserved, what may be borrowed and the layout's end, as they were then.
  std::atomic<std::uint64_t> quick_from{0};
  std::atomic<std::uint64_t> quick_below{0};
  // Wall minus boot time, the greatest that was believed. Logical time is boot time plus this.
  std::atomic<std::int64_t> offset_ns{0};

  base::LocalMutex mutex;
  Rounds rounds HOLDFAST_GUARDED_BY(mutex);
};

// The usual id by itself: the next one of the unit in use, by one look at the clock and one swap.
// kNone: reserve() finds out more. (An optional in its place costs as much as the swap.)
inline std::uint64_t Snowflake::Impl::next_in_unit() {
  if (process.forked()) return kNone;
  if (tick() != seen_tick.load(std::memory_order_acquire)) return kNone;
  const std::uint64_t from = quick_from.load(std::memory_order_relaxed);
  const std::uint64_t below = quick_below.load(std::memory_order_relaxed);
  std::uint64_t seen = likely.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t fresh = seen + 1;
    if ((fresh & round_mask) == 0 || fresh < from || fresh >= below) return kNone;
    if (!state.compare_exchange_strong(seen, fresh)) continue;
    likely.store(fresh, std::memory_order_relaxed);
    return layout.pack(static_cast<std::uint64_t>(time_of(fresh)), worker_mask, fresh & mask);
  }
}

Result<void> Snowflake::Impl::begin() {
  const ClockPolicy& policy = options.policy;
  const std::uint64_t values = mask + 1;
  if (options.worker >= layout.workers()) {
    return unfit("worker " + std::to_string(options.worker) + " does not fit the layout: it has " +
                 std::to_string(layout.workers()) + " workers, from 0 on");
  }
  if (options.start_above < -1 || options.start_above > last_time) {
    return unfit("start_above lies beyond the layout's times");
  }
  if (policy.back_at_most < milliseconds::zero() || policy.borrow_at_most < milliseconds::zero() ||
      policy.forward_at_most <= milliseconds::zero()) {
    return unfit("a clock policy's bounds must not be negative, and forward_at_most not zero");
  }
  constexpr milliseconds kLongest{std::numeric_limits<std::uint32_t>::max()};  // As a text has it.
  if (std::max({policy.back_at_most, policy.borrow_at_most, policy.forward_at_most}) > kLongest) {
    return unfit("a clock policy's bounds are 49 days at most");
  }
  round_mask = mask;
  state = packed(options.start_above, mask);
  if (policy.back == ClockPolicy::Back::kRounds) {
    if (policy.borrow_at_most > milliseconds::zero()) {
      return unfit(
          "rounds of a sequence do not combine with borrow(): an id of the future would "
          "take part of a round that a set back needs");
    }
    if (policy.round_size == 0 && policy.rounds == 0) {
      return unfit("a policy of rounds needs their number or their size, above zero");
    }
    round_size = policy.round_size != 0 ? policy.round_size : values / policy.rounds;
    if (round_size == 0 || values % round_size != 0 || values / round_size < 2) {
      return unfit("the sequence of " + std::to_string(values) +
                   " values must have two rounds or more, all of one size");
    }
    round_mask = round_size - 1;
    const std::size_t count = values / round_size;
    const base::LocalLock lock(mutex);
    rounds =
        options.rounds.value_or(Rounds{0, std::vector<std::int64_t>(count, options.start_above)});
    if (rounds.used_up_to.size() != count || rounds.current >= count) {
      return unfit("the marks of the rounds are not of this policy");
    }
    // The last object went on to there in its round.
    std::int64_t& mark = rounds.used_up_to[rounds.current];
    mark = std::max(mark, options.start_above);
    state = packed(mark, round_end(rounds.current * round_size));
  }
  const IdClock::Reading first = clock.read();
  std::int64_t offset = (first.wall - first.boot).count();
  if (logical) {
    // Goes on from where an earlier object was, at the pace of the clock.
    const nanoseconds from = layout.spec().epoch + length(options.start_above);
    offset = std::max(offset, (from - first.boot).count());
  }
  offset_ns = offset;
  return {};
}

// Reads the clocks, and finds out whether anything may be given now.
Result<void> Snowflake::Impl::look(std::int64_t tick) {
  const IdClock::Reading read = clock.read();
  if (options.permit && (read.boot + kTick).count() >= options.permit->deadline_ns.load()) {
    if (auto more = ended(now.load()); !more) return more;
    if ((read.boot + kTick).count() >= options.permit->deadline_ns.load()) {
      return Error(Errc::kLost, "the lease of worker " + std::to_string(options.worker) +
                                    " ended: no id is given under its number");
    }
  }
  const std::int64_t offset = (read.wall - read.boot).count();
  std::int64_t believed = offset_ns.load();
  // A leap forward would use up the time of the ids, and nothing could take it back.
  if (const nanoseconds jump(offset - believed); jump > options.policy.forward_at_most) {
    return Error(Errc::kUnavailable,
                 "the wall clock jumped forward by " +
                     ms_text(std::chrono::duration_cast<milliseconds>(jump)) + ", more than " +
                     ms_text(options.policy.forward_at_most) +
                     ": set it right, or make the generator anew if it is right now");
  }
  // The offset only grows, so logical time never goes back.
  while (offset > believed && !offset_ns.compare_exchange_weak(believed, offset)) continue;
  const nanoseconds wall =
      logical ? read.boot + nanoseconds(std::max(offset, believed)) : read.wall;
  const std::int64_t unit = layout.unit_of(wall);
  if (unit < 0) {
    return Error(Errc::kUnavailable, "the wall clock stands before the layout's epoch");
  }
  if (options.permit) {
    options.permit->come_to.store(std::max(unit, time_of(state.load(std::memory_order_relaxed))),
                                  std::memory_order_relaxed);
  }
  now.store(unit, std::memory_order_relaxed);
  now_ns.store(wall.count(), std::memory_order_relaxed);
  std::int64_t end = last_time + 1;
  if (!logical) end = std::min(end, unit + borrow + 1);
  if (options.permit) end = std::min(end, options.permit->reserved_until.load());
  // Within this tick next_in_unit() may give all ids between these two by itself.
  quick_from.store(packed(unit, 0), std::memory_order_relaxed);
  quick_below.store(packed(end, 0), std::memory_order_relaxed);
  seen_tick.store(tick, std::memory_order_release);
  return {};
}

Result<Snowflake::Impl::Run> Snowflake::Impl::reserve(std::uint32_t wanted) {
  if (process.forked()) {
    return Error(Errc::kClosed,
                 "this generator belongs to the parent of a forked process: make one in the child");
  }
  for (;;) {
    const std::int64_t at = tick();
    if (at != seen_tick.load(std::memory_order_acquire)) {
      if (auto looked = look(at); !looked) return looked.error();
    }
    // The run begins after the last id: in the unit of the clock, or, if ids are ahead of it, in
    // the last id's own unit.
    const std::int64_t unit = now.load(std::memory_order_relaxed);
    std::uint64_t seen = state.load(std::memory_order_relaxed);
    const std::int64_t time = time_of(seen);
    const std::uint64_t sequence = seen & mask;
    const std::uint64_t begin = round_begin(sequence);
    const std::uint64_t end = round_end(begin);
    Run run{.time = time, .first = sequence + 1, .count = 0};
    if (unit > time) {
      run = {.time = unit, .first = begin, .count = 0};
      // Ids are further ahead than the policy lets them borrow: the clock was set back.
    } else if (!logical && time - unit > borrow) {
      if (auto back = gone_back(); !back) return back.error();
      continue;
      // The unit, or the round in use, has no number left. The next unit may lie in the future.
    } else if (sequence == end) {
      run = {.time = time + 1, .first = begin, .count = 0};
      if (run.time - unit > borrow) {
        if (auto waited = full(run.time); !waited) return waited.error();
        continue;
      }
    }
    if (run.time > last_time) {
      return Error(Errc::kUnsupported,
                   "the layout's lifetime is over: move to a new layout in a namespace of its own");
    }
    // Only time that is reserved may be given: a next holder of the worker begins after it.
    if (options.permit && run.time >= options.permit->reserved_until.load()) {
      if (auto more = ended(run.time); !more) return more.error();
      if (run.time >= options.permit->reserved_until.load()) {
        return Error(Errc::kUnavailable, "the time reserved for the worker is used up");
      }
      continue;
    }
    run.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, end - run.first + 1));
    // The thread that swaps the state owns the run. If another one was first, this one looks at
    // everything again.
    const std::uint64_t word = packed(run.time, run.first + run.count - 1);
    if (state.compare_exchange_weak(seen, word)) {
      likely.store(word, std::memory_order_relaxed);
      return run;
    }
  }
}

// Waits until the clock has come near enough to this unit.
Result<void> Snowflake::Impl::full(std::int64_t next) {
  const nanoseconds left = layout.spec().epoch + length(next - borrow) - nanoseconds(now_ns.load());
  clock.sleep(left);
  return look(tick());
}

Result<void> Snowflake::Impl::gone_back() {
  if (auto looked = look(tick()); !looked) return looked;
  const std::int64_t unit = now.load();
  const std::int64_t behind = time_of(state.load()) - unit;
  if (behind <= borrow) return {};  // A stalled thread had put an older time back.
  const ClockPolicy& policy = options.policy;
  const bool bearable = length(behind) <= policy.back_at_most;
  if (bearable && policy.back != ClockPolicy::Back::kRefuse) {
    clock.sleep(layout.spec().epoch + length(unit + behind) - nanoseconds(now_ns.load()));
    return look(tick());
  }
  if (policy.back == ClockPolicy::Back::kRounds) return next_round(unit);
  return Error(Errc::kUnavailable,
               "the wall clock stands " + ms_text(length(behind)) +
                   " before the last time that was used or reserved: ids come again when it has "
                   "caught up");
}

// The clock is followed back with a round of the sequence whose ids are all of earlier times.
Result<void> Snowflake::Impl::next_round(std::int64_t unit) {
  const base::LocalLock lock(mutex);
  for (;;) {
    std::uint64_t seen = state.load();
    const std::int64_t time = time_of(seen);
    if (time <= unit) return {};  // Another thread did it.
    Rounds next = rounds;
    std::int64_t& mark = next.used_up_to[next.current];
    mark = std::max(mark, time);
    const auto& marks = next.used_up_to;
    const auto free =
        std::find_if(marks.begin(), marks.end(), [unit](std::int64_t used) { return used < unit; });
    if (free == marks.end()) {
      return Error(Errc::kUnavailable,
                   "the wall clock stands " + ms_text(length(time - unit)) +
                       " before the last time that was used or reserved, and every round of the "
                       "sequence is used there: ids come again when it has caught up");
    }
    next.current = static_cast<std::uint32_t>(free - marks.begin());
    if (options.permit) {
      if (auto kept = options.permit->keep_rounds(next); !kept) return kept;
    }
    const std::uint64_t full_round = round_end(next.current * round_size);
    // A thread that had looked before may have taken one more id of the old round meanwhile, in the
    // same unit: the mark covers it.
    const std::uint64_t fresh = packed(unit - 1, full_round);
    while (time_of(seen) == time && !state.compare_exchange_weak(seen, fresh)) continue;
    if (time_of(seen) != time) continue;
    rounds = std::move(next);
    return {};
  }
}

Result<void> Snowflake::Impl::ended(std::int64_t unit) { return options.permit->ended(unit); }

Snowflake::Snowflake(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Snowflake::~Snowflake() {
  if (!impl_->options.permit) return;
  impl_->process.forked() ? base::abandon(impl_->options.permit)
                          : impl_->options.permit->close(last_unit());
}

Result<std::unique_ptr<Snowflake>> Snowflake::make(SnowflakeOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  if (auto begun = impl->begin(); !begun) return begun.error();
  return std::unique_ptr<Snowflake>(new Snowflake(std::move(impl)));
}

Result<Id> Snowflake::next() {
  if (const auto id = impl_->next_in_unit(); id != Impl::kNone) [[likely]]
    return Id::of(id);
  const auto run = impl_->reserve(1);
  if (!run) return run.error();
  return Id::of(
      impl_->layout.pack(static_cast<std::uint64_t>(run->time), impl_->worker_mask, run->first));
}

Result<std::size_t> Snowflake::next_batch(std::span<std::uint64_t> into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const auto wanted = std::min<std::size_t>(into.size() - done, impl_->mask + 1);
    const auto run = impl_->reserve(static_cast<std::uint32_t>(wanted));
    if (!run) {
      if (done == 0) return run.error();
      break;
    }
    for (std::uint32_t i = 0; i < run->count; ++i) {
      into[done++] = impl_->layout.pack(static_cast<std::uint64_t>(run->time), impl_->worker_mask,
                                        run->first + i);
    }
  }
  return done;
}

IdGuarantees Snowflake::guarantees() const {
  IdGuarantees made = impl_->options.permit ? impl_->options.permit->guarantees()
                                            : IdGuarantees{.unique_by = UniqueBy::kConfiguration};
  const bool forward = impl_->options.policy.back != ClockPolicy::Back::kRounds;
  made.survives_pause = made.survives_fork = true;
  made.order = forward && impl_->layout.ordered() ? IdOrder::kObject : IdOrder::kNone;
  return made;
}

const Layout& Snowflake::layout() const { return impl_->layout; }
std::uint64_t Snowflake::worker() const { return impl_->options.worker; }
std::int64_t Snowflake::last_unit() const { return impl_->time_of(impl_->state.load()); }

milliseconds Snowflake::ahead() const {
  const std::int64_t wall = impl_->layout.unit_of(impl_->clock.read().wall);
  return std::max(milliseconds::zero(), impl_->length(last_unit() - wall));
}

SnowflakeBlock::SnowflakeBlock(Snowflake& from, std::uint32_t size)
    : from_(from),
      clock_(from.impl_->options.clock),
      process_(&from.impl_->process.word()),
      born_in_(from.impl_->process.generation()),
      size_(size > 0 ? size : 1) {}

Result<Id> SnowflakeBlock::refill() {
  next_ = last_ = 0;
  tick_ = tick();  // Before the look: the ids are good for the rest of this tick.
  const Snowflake::Impl& its = *from_.impl_;
  const auto run = from_.impl_->reserve(size_);
  if (!run) return run.error();
  const auto time = static_cast<std::uint64_t>(run->time);
  const auto id_of = [&](std::uint64_t sequence) {
    return its.layout.pack(time, its.worker_mask, sequence);
  };
  next_ = id_of(run->first);
  last_ = id_of(run->first + run->count - 1);
  step_ = run->count > 1 ? id_of(run->first + 1) - next_ : 0;
  return Id::of(next_);
}

IdGuarantees SnowflakeBlock::guarantees() const {
  IdGuarantees made = from_.guarantees();
  if (made.order == IdOrder::kObject) made.order = IdOrder::kPerThread;
  return made;
}

}  // namespace holdfast::ids
