#include "holdfast/ids/uuid.h"

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "src/base/fork_guard.h"
#include "src/base/local_mutex.h"
#include "src/base/random.h"

namespace holdfast::ids {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kVersion7 = std::uint64_t{7} << 12;
constexpr std::uint64_t kVariant = std::uint64_t{1} << 63;
constexpr int kCounterBits = 42;  // 12 above the variant's bits, 30 below them.
constexpr std::uint64_t kCounterEnd = std::uint64_t{1} << kCounterBits;
constexpr std::uint64_t kMillisEnd = std::uint64_t{1} << 48;

// Time makes these ids grow, and random bits keep them apart: nothing has to be remembered.
IdGuarantees by_chance() {
  return {UniqueBy::kChance,
          IdOrder::kObject,
          /*survives_restart=*/true,
          /*survives_clock_back=*/true,
          /*survives_pause=*/true,
          /*survives_fork=*/true,
          /*survives_old_copy=*/true};
}

constexpr std::uint64_t low_bits(std::uint64_t value, int bits) {
  return value & ((std::uint64_t{1} << bits) - 1);
}

}  // namespace

// The state that a process works on. In a forked child another thread may have had the mutex at the
// fork, so the child has a state of its own from its first call on.
template <typename State>
class PerProcess {
 public:
  explicit PerProcess(std::unique_ptr<State> first) : state_(first.release()) {}
  ~PerProcess() {
    State* const last = state_.load();
    if (last->process == base::process_generation()) delete last;
  }
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  State& get() {
    State* seen = state_.load(std::memory_order_acquire);
    if (seen->process == base::process_generation()) return *seen;
    auto fresh = std::make_unique<State>(seen->for_child());
    // The parent's is kept: its mutex cannot be destroyed.
    if (state_.compare_exchange_strong(seen, fresh.get())) return *fresh.release();
    return *seen;
  }

 private:
  std::atomic<State*> state_;
};

// The millisecond of the next id. It never goes back.
class Millis {
 public:
  Millis(IdClock* clock, RandomBits random)
      : clock_(clock != nullptr ? *clock : IdClock::machine()),
        random_(random ? std::move(random) : [] { return base::random_128().low; }) {}

  std::uint64_t random() const { return random_(); }

  // True: a later one than the last id's, or the first in this process: draw anew.
  bool advance() {
    const bool first = std::exchange(first_, false);
    const auto wall = std::chrono::duration_cast<milliseconds>(clock_.read().wall).count();
    const auto now = static_cast<std::uint64_t>(wall < 0 ? 0 : wall);
    if (now > last_) {
      last_ = now;
      return true;
    }
    return first;
  }
  // For another process.
  Millis copy() const {
    Millis other = *this;
    other.first_ = true;
    return other;
  }
  // The counter of the last one is used up.
  void step_ahead() { ++last_; }
  std::uint64_t last() const { return last_; }

  Result<void> check() const {
    if (last_ < kMillisEnd) return {};
    return Error(Errc::kUnsupported, "48 bits of milliseconds end here");
  }

 private:
  IdClock& clock_;
  RandomBits random_;
  bool first_ = true;
  std::uint64_t last_ = 0;
};

struct GrowingState {
  explicit GrowingState(Millis its) : millis(std::move(its)) {}
  // Reads without the mutex: in a forked child nobody writes to the parent's state.
  Millis for_child() const HOLDFAST_NO_TSA { return millis.copy(); }

  const std::uint64_t process = base::process_generation();
  base::LocalMutex mutex;
  Millis millis HOLDFAST_GUARDED_BY(mutex);
};

struct UuidState : GrowingState {
  using GrowingState::GrowingState;

  Result<Id> next() HOLDFAST_EXCLUDES(mutex) {
    const base::LocalLock lock(mutex);
    if (millis.advance()) {
      seed();
    } else if (++counter == kCounterEnd) {
      millis.step_ahead();
      seed();
    }
    if (auto good = millis.check(); !good) return good.error();
    const std::uint64_t tail = low_bits(millis.random(), 32);
    return Id{millis.last() << 16 | kVersion7 | counter >> 30,
              kVariant | low_bits(counter, 30) << 32 | tail, IdForm::kUuid};
  }
  // The upper bit stays free, so a millisecond has room for 2^41 more.
  void seed() HOLDFAST_REQUIRES(mutex) { counter = low_bits(millis.random(), kCounterBits - 1); }

  std::uint64_t counter HOLDFAST_GUARDED_BY(mutex) = 0;
};

struct UuidV7::Impl : PerProcess<UuidState> {
  using PerProcess::PerProcess;
};

UuidV7::UuidV7(IdClock* clock, RandomBits random)
    : impl_(std::make_unique<Impl>(std::make_unique<UuidState>(Millis(clock, std::move(random))))) {
}
UuidV7::~UuidV7() = default;
Result<Id> UuidV7::next() { return impl_->get().next(); }
IdGuarantees UuidV7::guarantees() const { return by_chance(); }

struct UlidState : GrowingState {
  using GrowingState::GrowingState;

  Result<Id> next() HOLDFAST_EXCLUDES(mutex) {
    const base::LocalLock lock(mutex);
    if (millis.advance()) {
      seed();
    } else if (++low == 0 && ++high >> 16 != 0) {
      millis.step_ahead();
      seed();
    }
    if (auto good = millis.check(); !good) return good.error();
    return Id{millis.last() << 16 | high, low, IdForm::kUlid};
  }
  void seed() HOLDFAST_REQUIRES(mutex) {
    high = low_bits(millis.random(), 16);
    low = millis.random();
  }

  std::uint64_t high HOLDFAST_GUARDED_BY(mutex) = 0;  // The upper 16 of the 80 random bits.
  std::uint64_t low HOLDFAST_GUARDED_BY(mutex) = 0;
};

struct Ulid::Impl : PerProcess<UlidState> {
  using PerProcess::PerProcess;
};

Ulid::Ulid(IdClock* clock, RandomBits random)
    : impl_(std::make_unique<Impl>(std::make_unique<UlidState>(Millis(clock, std::move(random))))) {
}
Ulid::~Ulid() = default;
Result<Id> Ulid::next() { return impl_->get().next(); }
IdGuarantees Ulid::guarantees() const { return by_chance(); }

std::optional<milliseconds> time_of(const Id& id) {
  if (id.form == IdForm::kNumber) return std::nullopt;
  if (id.form == IdForm::kUuid && (id.high >> 12 & 15) != 7) return std::nullopt;
  return milliseconds(static_cast<std::int64_t>(id.high >> 16));
}

}  // namespace holdfast::ids
