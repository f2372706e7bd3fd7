// `id --store URL`: worker numbers that are leased from a store, and counters in it.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/detail/number.h"
#include "holdfast/ids/leased_workers.h"
#include "holdfast/ids/segments.h"
#include "holdfast/ids/store_counter.h"
#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/id_store.h"
#include "src/cli/options/settings.h"
#include "src/cli/options/values.h"
#include "src/cli/text/json.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

using ids::LeasedWorkers;
using ids::Segments;

// A process that gives a few ids and ends: what is reserved for longer is lost with it, or is
// time that the next one cannot use.
constexpr std::chrono::milliseconds kShortTtl{10'000};

const std::string& url_of(const IdOptions& options) { return *options.common.store; }

Result<LeasedWorkers> open_workers(const IdOptions& options) {
  ids::LeasedWorkersOptions how;
  how.ttl = kShortTtl;
  how.require_durable = options.durable;
  return LeasedWorkers::open(url_of(options), options.what, how);
}

// As many numbers as are asked for.
Result<std::unique_ptr<Segments>> open_segments(const IdOptions& options) {
  ids::SegmentsOptions how;
  how.step_min = how.step_max = static_cast<std::uint64_t>(options.count);
  how.fill_level = 1;
  how.require_durable = options.durable;
  return Segments::open(url_of(options), options.what, how);
}

Result<std::unique_ptr<ids::StoreCounter>> open_counter(const IdOptions& options) {
  constexpr int kLargestBatch = 10'000;
  ids::StoreCounterOptions how;
  how.batch = static_cast<std::uint32_t>(std::min(options.count, kLargestBatch));
  how.require_durable = options.durable;
  return ids::StoreCounter::open(url_of(options), options.what, how);
}

int init_counter(const IdOptions& options) {
  if (auto made = ids::StoreCounter::create(url_of(options), options.what); !made) {
    return id_failed(options, made.error());
  }
  return answer(options.common, {{"name", options.what}, {"kind", "counter"}, {"first", 1}},
                "made the counter " + printable(options.what) + ": numbers from 1 on\n");
}

int init_segments(const IdOptions& options) {
  if (auto made = Segments::create(url_of(options), options.what); !made) {
    return id_failed(options, made.error());
  }
  return answer(options.common, {{"name", options.what}, {"kind", "segments"}, {"first", 1}},
                "made " + printable(options.what) + ": numbers from 1 on\n");
}

}  // namespace

Result<std::unique_ptr<ids::IdSource>> open_store_ids(const IdOptions& options) {
  if (options.counter) {
    auto counter = open_counter(options);
    if (!counter) return counter.error();
    return std::unique_ptr<ids::IdSource>(*std::move(counter));
  }
  const auto workers = open_workers(options);
  if (workers) {
    if (auto same = check_id_layout(options, workers->spec().layout); !same) return same.error();
    auto leased = workers->ids();
    if (!leased) return leased.error();
    return std::unique_ptr<ids::IdSource>(*std::move(leased));
  }
  // It may be of the other kind.
  if (workers.error().code() != Errc::kInvalidArgument) return workers.error();
  if (options.layout) return workers.error();
  auto segments = open_segments(options);
  if (!segments) {
    return segments.error().code() == Errc::kInvalidArgument ? workers.error() : segments.error();
  }
  return std::unique_ptr<ids::IdSource>(*std::move(segments));
}

int init_store_ids(const IdOptions& options) {
  if (options.durable) {
    // There is no such namespace yet, but the store is looked at first.
    const auto tried = open_workers(options);
    if (!tried && tried.error().code() == Errc::kUnsupported) {
      return id_failed(options, tried.error());
    }
  }
  if (options.counter) return init_counter(options);
  if (options.segments) return init_segments(options);
  const auto shape = id_shape(options);
  if (!shape) return usage_error("id", shape.error());
  if (shape->first != 0) {
    return usage_error("id", invalid("--workers: the numbers in a store begin at 0: write 0-" +
                                     std::to_string(shape->last)));
  }
  const ids::LeasedWorkersSpec spec{shape->layout, shape->policy, shape->last + 1};
  if (auto made = LeasedWorkers::create(url_of(options), options.what, spec); !made) {
    return id_failed(options, made.error());
  }
  return answer(options.common,
                {{"name", options.what},
                 {"kind", "workers"},
                 {"layout", shape->layout.to_string()},
                 {"policy", shape->policy.to_string()},
                 {"workers", spec.workers},
                 {"ids_per_second", static_cast<std::int64_t>(shape->layout.ids_per_second())},
                 {"ends", id_time_text(shape->layout.end())}},
                "made " + printable(options.what) + "\n" + id_shape_text(*shape));
}

int show_store_workers(const IdOptions& options) {
  const auto open = open_workers(options);
  const auto found = open ? open->workers() : Result<std::vector<ids::LeasedWorker>>(open.error());
  if (!found) return id_failed(options, found.error());
  return print_workers(options, *found, /*with_hosts=*/true);
}

int show_segments(const IdOptions& options) {
  const auto found = Segments::status(url_of(options), options.what);
  if (!found) return id_failed(options, found.error());
  Json out{{"name", options.what},
           {"first", std::to_string(found->first)},
           {"last", std::to_string(found->last)},
           {"next", std::to_string(found->next)}};
  out["stopped"] = found->stopped ? Json(*found->stopped) : Json(nullptr);
  out["forgets"] = found->forgets;
  std::string text = "next " + std::to_string(found->next) + " of " + std::to_string(found->first) +
                     " to " + std::to_string(found->last) + "\n";
  if (found->stopped) text += "stopped: " + printable(*found->stopped) + "\n";
  if (!found->forgets.empty()) text += "may repeat numbers: " + printable(found->forgets) + "\n";
  return answer(options.common, out, text);
}

int set_segments_floor(const IdOptions& options) {
  const auto floor = detail::parse_number<std::uint64_t>(*options.floor);
  if (!floor) {
    return usage_error("id", invalid("--floor: " + in_quotes(*options.floor) + " is no number"));
  }
  if (auto set = Segments::set_floor(url_of(options), options.what, *floor, options.reason); !set) {
    return id_failed(options, set.error());
  }
  return answer(options.common, {{"name", options.what}, {"floor", std::to_string(*floor)}},
                "no number up to " + std::to_string(*floor) +
                    " is given again. Processes that "
                    "have the ids open must open them again\n");
}

}  // namespace holdfast::cli
