#include "src/ids/segments/supply.h"

#include <algorithm>

namespace holdfast::ids {

std::uint64_t adapted_step(std::uint64_t step, std::chrono::nanoseconds lasted,
                           const SegmentsOptions& options) {
  if (lasted < options.wanted_duration) step *= 2;
  if (lasted > 2 * options.wanted_duration) step /= 2;
  return std::clamp(step, options.step_min, options.step_max);
}

Result<void> Supply::fetch(base::BootInstant now, base::BootInstant by) {
  if (has_next()) return {};
  // From one fetch to the next as many numbers are used as one range has.
  const bool again = fetched_ != base::BootInstant{};
  const std::uint64_t step =
      again ? adapted_step(step_.load(), now - fetched_, options_) : step_.load();
  const auto range = counter_.take(step, by);
  if (!range) return range.error();
  fetched_ = now;
  step_ = step;
  offer(*range);
  return {};
}

bool Supply::offer(const Range& range) {
  if (range.first < above_) return false;
  const auto size = static_cast<std::uint32_t>(range.count);
  // At 1 no claim comes to the level: the next range is fetched when it is asked for.
  const auto share = static_cast<std::uint32_t>(static_cast<double>(size) * options_.fill_level);
  const std::uint32_t level = options_.fill_level >= 1 ? size + 1 : std::max(share, 1U);
  if (!slots.fill(range.first, size, level)) return false;
  above_ = range.end();
  return true;
}

}  // namespace holdfast::ids
