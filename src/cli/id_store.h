// `id` without --file: ids whose worker numbers or counters are in a store, that of `common.store`.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/ids/id.h"
#include "holdfast/ids/layout.h"
#include "holdfast/ids/leased_workers.h"
#include "holdfast/ids/snowflake.h"
#include "holdfast/result.h"
#include "src/cli/options/options.h"

namespace holdfast::cli {

inline constexpr std::string_view kDefaultIdLayout = "time:41 worker:10 sequence:12";
inline constexpr std::uint64_t kDefaultIdWorkers = 64;

// Layout and policy by the options, or the defaults.
struct IdShape {
  ids::Layout layout;
  ids::ClockPolicy policy;
  std::uint64_t first = 0;  // The worker numbers go from here to the last one.
  std::uint64_t last = 0;
};
Result<IdShape> id_shape(const IdOptions& options);

// With --layout: that it is the ids' own.
Result<void> check_id_layout(const IdOptions& options, const ids::Layout& layout);

std::string id_time_text(std::chrono::milliseconds unix_time);
// Complains. Returns the exit status.
int id_failed(const IdOptions& options, const Error& error);
// A row for each worker number that was ever taken. Returns the exit status.
int print_workers(const IdOptions& options, const std::vector<ids::LeasedWorker>& workers,
                  bool with_hosts);
// The lines of `init` about a layout, below its first one.
std::string id_shape_text(const IdShape& shape);

// The source of the namespace, of either kind.
Result<std::unique_ptr<ids::IdSource>> open_store_ids(const IdOptions& options);

// One verb each, but for `next` and `decode`. Returns the exit status.
int init_store_ids(const IdOptions& options);
int show_store_workers(const IdOptions& options);
int show_segments(const IdOptions& options);
int set_segments_floor(const IdOptions& options);

}  // namespace holdfast::cli
