#include "holdfast/ids/uuid.h"

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

constexpr std::uint64_t low_bits(std::uint64_t value, int bits) {
  return value & ((std::uint64_t{1} << bits) - 1);
}

}  // namespace

// The millisecond of the next id. It never goes back.
class Millis {
 public:
  Millis(IdClock* clock, RandomBits random)
      : clock_(clock != nullptr ? *clock : IdClock::machine()),
        random_(random ? std::move(random) : [] { return base::random_128().low; }) {}

  std::uint64_t random() const { return random_(); }

  // True: a later one than the last id's, or the first in this process: draw anew.
  bool advance() {
    const std::uint64_t process = base::process_generation();
    const bool forked = std::exchange(process_, process) != process;
    const auto wall = std::chrono::duration_cast<milliseconds>(clock_.read().wall).count();
    const auto now = static_cast<std::uint64_t>(wall < 0 ? 0 : wall);
    if (now > last_) {
      last_ = now;
      return true;
    }
    return forked;
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
  std::uint64_t process_ = 0;
  std::uint64_t last_ = 0;
};

struct UuidV7::Impl {
  Impl(IdClock* clock, RandomBits random) : millis(clock, std::move(random)) {}

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

  base::LocalMutex mutex;
  Millis millis HOLDFAST_GUARDED_BY(mutex);
  std::uint64_t counter HOLDFAST_GUARDED_BY(mutex) = 0;
};

UuidV7::UuidV7(IdClock* clock, RandomBits random)
    : impl_(std::make_unique<Impl>(clock, std::move(random))) {}
UuidV7::~UuidV7() = default;
Result<Id> UuidV7::next() { return impl_->next(); }
IdGuarantees UuidV7::guarantees() const {
  return {UniqueBy::kChance, IdOrder::kObject, /*survives_restart=*/true,
          /*survives_clock_back=*/true, /*survives_pause=*/true, /*survives_fork=*/true,
          /*survives_old_copy=*/true};
}

struct Ulid::Impl {
  Impl(IdClock* clock, RandomBits random) : millis(clock, std::move(random)) {}

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

  base::LocalMutex mutex;
  Millis millis HOLDFAST_GUARDED_BY(mutex);
  std::uint64_t high HOLDFAST_GUARDED_BY(mutex) = 0;  // The upper 16 of the 80 random bits.
  std::uint64_t low HOLDFAST_GUARDED_BY(mutex) = 0;
};

Ulid::Ulid(IdClock* clock, RandomBits random)
    : impl_(std::make_unique<Impl>(clock, std::move(random))) {}
Ulid::~Ulid() = default;
Result<Id> Ulid::next() { return impl_->next(); }
IdGuarantees Ulid::guarantees() const {
  return {UniqueBy::kChance, IdOrder::kObject, /*survives_restart=*/true,
          /*survives_clock_back=*/true, /*survives_pause=*/true, /*survives_fork=*/true,
          /*survives_old_copy=*/true};
}

std::optional<milliseconds> time_of(const Id& id) {
  if (id.form == IdForm::kNumber) return std::nullopt;
  if (id.form == IdForm::kUuid && (id.high >> 12 & 15) != 7) return std::nullopt;
  return milliseconds(static_cast<std::int64_t>(id.high >> 16));
}

}  // namespace holdfast::ids
