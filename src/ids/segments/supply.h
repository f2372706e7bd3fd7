// The numbers of one object: two ranges, the counter that they come from, and how large they are.
// It has no thread and no clock: segments.cc has those, and the simulation others.
//
// Guarantee: numbers grow in the order of the calls of take(). A range is used only after the
// counter has answered it, and only when it lies above all that was given.
// Thread-safety: take(), has_next() and shut() from any thread; the rest one thread at a time.
// Blocking: fetch() and look() for the store; nothing else.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "holdfast/ids/segments.h"
#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/ids/segments/counter.h"
#include "src/ids/segments/slots.h"
#include "src/port/records.h"

namespace holdfast::ids {

struct Run {
  std::uint64_t first = 0;
  std::uint32_t count = 0;  // 0: both ranges are used up.
  bool wants_fetch = false;
};

// The next range's size, after one of `step` numbers lasted so long.
std::uint64_t adapted_step(std::uint64_t step, std::chrono::nanoseconds lasted,
                           const SegmentsOptions& options);

class Supply {
 public:
  Supply(std::unique_ptr<port::Records> records, SegmentsHead head, const SegmentsOptions& options,
         Counter::Pause pause)
      : options_(options),
        records_(std::move(records)),
        counter_(*records_, std::move(head), std::move(pause)),
        step_(options.step_min) {}

  // At most `wanted` numbers, one after the other.
  Run take(std::uint32_t wanted) {
    for (;;) {
      const Slots::Look seen = slots.look();
      const std::uint32_t left = seen.left();
      if (left == 0) {
        if (!slots.advance(seen)) return {};
        continue;
      }
      const std::uint32_t count = wanted < left ? wanted : left;
      if (!slots.claim(seen, count)) continue;
      return {seen.first + seen.offset(), count, seen.reaches_level(count)};
    }
  }

  bool has_next() const { return slots.has_next(); }
  void shut() { slots.shut(); }

  // Errors: as Counter::look().
  Result<void> look(base::BootInstant by) { return counter_.look(by); }
  // Takes a range, unless the next one is there.
  // Errors: as Counter::take().
  Result<void> fetch(base::BootInstant now, base::BootInstant by);
  // False: the range is thrown away, since it does not lie above all that was offered before.
  bool offer(const Range& range);

  bool must_stop() const { return counter_.must_stop(); }
  std::uint64_t step() const { return step_.load(std::memory_order_relaxed); }

  Slots slots;  // For the tests, which look and claim later.

 private:
  const SegmentsOptions options_;
  const std::unique_ptr<port::Records> records_;
  Counter counter_;
  std::atomic<std::uint64_t> step_;
  std::uint64_t above_ = 0;  // All that was offered lies below.
  base::BootInstant fetched_{};
};

}  // namespace holdfast::ids
