// `id`: ids of a file of this host, and what is in an id.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/detail/number.h"
#include "holdfast/ids/host_workers.h"
#include "holdfast/ids/uuid.h"
#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/id_store.h"
#include "src/cli/options/config.h"
#include "src/cli/options/settings.h"
#include "src/cli/options/values.h"
#include "src/cli/text/json.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

using ids::HostWorkers;
using ids::Id;
using ids::Layout;
using std::chrono::milliseconds;

Result<std::pair<std::uint64_t, std::uint64_t>> range_of(const IdOptions& options,
                                                         const Layout& layout) {
  if (!options.workers) {
    return std::pair{std::uint64_t{0}, std::min(kDefaultIdWorkers, layout.workers()) - 1};
  }
  const std::string& text = *options.workers;
  const std::size_t dash = text.find('-');
  const auto number = [&](std::size_t from, std::size_t length) {
    return detail::parse_number<std::uint64_t>(std::string_view(text).substr(from, length));
  };
  const auto first = number(0, dash);
  const auto last = dash == text.npos ? first : number(dash + 1, text.npos);
  if (first && last && *first <= *last) return std::pair{*first, *last};
  return invalid("--workers: " + in_quotes(text) + " is no range: write 0-63, or one number");
}

int init(const IdOptions& options) {
  const std::string& file = *options.file;
  const auto shape = id_shape(options);
  if (!shape) return usage_error("id", shape.error());
  const ids::HostWorkersSpec spec{shape->layout, shape->policy, shape->first, shape->last};
  if (auto made = HostWorkers::create(file, spec); !made) return id_failed(options, made.error());
  const Layout& layout = shape->layout;
  return answer(options.common,
                {{"file", file},
                 {"layout", layout.to_string()},
                 {"policy", shape->policy.to_string()},
                 {"first_worker", shape->first},
                 {"last_worker", shape->last},
                 {"ids_per_second", static_cast<std::int64_t>(layout.ids_per_second())},
                 {"ends", id_time_text(layout.end())}},
                "made " + printable(file) + "\n" + id_shape_text(*shape));
}

Result<std::unique_ptr<ids::IdSource>> source_of(const IdOptions& options) {
  if (options.uuid) return std::unique_ptr<ids::IdSource>(std::make_unique<ids::UuidV7>());
  if (options.ulid) return std::unique_ptr<ids::IdSource>(std::make_unique<ids::Ulid>());
  if (!options.file) return open_store_ids(options);
  const auto workers = HostWorkers::open(*options.file);
  if (!workers) return workers.error();
  if (auto same = check_id_layout(options, workers->spec().layout); !same) return same.error();
  auto taken = workers->take();
  if (!taken) return taken.error();
  return std::unique_ptr<ids::IdSource>(*std::move(taken));
}

int next(const IdOptions& options) {
  const auto source = source_of(options);
  if (!source) return id_failed(options, source.error());
  for (int i = 0; i < options.count; ++i) {
    const auto id = (*source)->next();
    if (!id) return id_failed(options, id.error());
    print(options.common.json ? to_line({{"id", id->to_string()}}) : id->to_string() + "\n");
  }
  return flush_output() ? 0 : kExitError;
}

// The maker of an id, as far as the options tell.
struct Maker {
  Layout layout;
  std::optional<ids::ClockPolicy> policy{};
};

Result<Maker> maker_of(const IdOptions& options) {
  if (options.layout) {
    const auto layout = Layout::parse(*options.layout);
    if (!layout) return layout.error();
    if (!options.policy) return Maker{*layout};
    const auto policy = ids::ClockPolicy::parse(*options.policy);
    if (!policy) return policy.error();
    return Maker{*layout, *policy};
  }
  if (!options.file) {
    return invalid("a number needs the layout that it was made with: give --layout or --file");
  }
  const auto workers = HostWorkers::open(*options.file);
  if (!workers) return workers.error();
  return Maker{workers->spec().layout, workers->spec().policy};
}

// How far the time of an id may be ahead of the clock at the moment when it was given.
std::string ahead_text(const Maker& maker) {
  if (!maker.policy) return "ahead of the clock by at most what the policy allows";
  const auto most = maker.policy->ahead_at_most(maker.layout);
  if (most) return "ahead of the clock by at most " + std::to_string(most->count()) + " ms";
  const milliseconds borrowed = maker.policy->borrow_at_most;
  return "ahead of the clock by at most the time that it was set back" +
         (borrowed > milliseconds::zero() ? ", and " + std::to_string(borrowed.count()) + " ms"
                                          : std::string());
}

int decode(const IdOptions& options) {
  const auto id = Id::parse(options.what);
  if (!id) {
    return usage_error("id", invalid(in_quotes(options.what) +
                                     " is no id: neither a number of 63 bits, a UUID nor a ULID"));
  }
  if (const auto time = ids::time_of(*id)) {
    return answer(options.common, {{"id", id->to_string()}, {"time", id_time_text(*time)}},
                  "time " + id_time_text(*time) + "\n");
  }
  if (id->form != ids::IdForm::kNumber) {
    return id_failed(options, invalid("a UUID of another version than 7 has no time that grows"));
  }
  const auto maker = maker_of(options);
  if (!maker) return id_failed(options, maker.error());
  const Layout& layout = maker->layout;
  const auto parts = layout.decode(*id);
  if (!parts) return id_failed(options, parts.error());
  Json out{{"id", id->to_string()}, {"time", id_time_text(parts->unix_time)}, {"logical", true}};
  const auto ahead = maker->policy ? maker->policy->ahead_at_most(layout) : std::nullopt;
  out["ahead_at_most_ms"] = ahead ? Json(ahead->count()) : Json(nullptr);
  std::string text =
      "time " + id_time_text(parts->unix_time) + " (logical: " + ahead_text(*maker) + ")\n";
  for (const ids::LayoutField& field : layout.spec().fields) {
    if (field.name == "time") continue;
    const std::uint64_t value = *layout.field(*id, field.name);
    out[field.name] = value;
    text += printable(field.name) + " " + std::to_string(value) + "\n";
  }
  return answer(options.common, out, text);
}

int show_workers(const IdOptions& options) {
  const auto open = HostWorkers::open(*options.file);
  const auto found = open ? open->workers() : Result<std::vector<ids::HostWorker>>(open.error());
  if (!found) return id_failed(options, found.error());
  std::vector<ids::LeasedWorker> here;
  for (const ids::HostWorker& each : *found) {
    here.push_back({.worker = each.worker,
                    .held = each.held,
                    .pid = each.pid,
                    .since = each.since,
                    .reserved_until = each.reserved_until,
                    .trouble = each.trouble});
  }
  return print_workers(options, here, /*with_hosts=*/false);
}

}  // namespace

int print_workers(const IdOptions& options, const std::vector<ids::LeasedWorker>& workers,
                  bool with_hosts) {
  std::vector<std::string> head{"WORKER", "HELD", "PID", "SINCE", "RESERVED UNTIL"};
  if (with_hosts) head.insert(head.begin() + 2, "HOST");
  Table table(head);
  bool damaged = false;
  for (const ids::LeasedWorker& each : workers) {
    if (!each.trouble.empty()) {
      complain(printable(each.trouble));
      damaged = true;
    }
    if (each.pid == 0) continue;  // Nobody has ever taken it, or nothing is known of it.
    const std::string since = id_time_text(each.since);
    const std::string until = id_time_text(each.reserved_until);
    if (options.common.json) {
      Json line{{"worker", each.worker}, {"held", each.held}};
      if (with_hosts) line["host"] = each.host;
      line.update({{"pid", each.pid}, {"since", since}, {"reserved_until", until}});
      print(to_line(line));
      continue;
    }
    std::vector<std::string> row{std::to_string(each.worker), each.held ? "yes" : "no",
                                 std::to_string(each.pid), since, until};
    if (with_hosts) row.insert(row.begin() + 2, printable(each.host));
    table.add(std::move(row));
  }
  if (!options.common.json) print(table.to_string(colour_wanted(), terminal_width()));
  return flush_output() && !damaged ? 0 : kExitError;
}

std::string id_time_text(milliseconds unix_time) { return utc_text(unix_time); }

int id_failed(const IdOptions& options, const Error& error) {
  complain("id " + options.verb + ": " + printable(error.message()));
  return kExitError;
}

Result<IdShape> id_shape(const IdOptions& options) {
  const auto layout = Layout::parse(options.layout.value_or(std::string(kDefaultIdLayout)));
  if (!layout) return layout.error();
  const auto policy = ids::ClockPolicy::parse(options.policy.value_or("logical"));
  if (!policy) return policy.error();
  const auto range = range_of(options, *layout);
  if (!range) return range.error();
  return IdShape{*layout, *policy, range->first, range->second};
}

Result<void> check_id_layout(const IdOptions& options, const Layout& layout) {
  if (!options.layout) return {};
  const auto wanted = Layout::parse(*options.layout);
  if (!wanted) return wanted.error();
  if (*wanted == layout) return {};
  return invalid("--layout: these ids have the layout " + in_quotes(layout.to_string()) +
                 " for good: take that, or make ids of another name");
}

std::string id_shape_text(const IdShape& shape) {
  return "  layout: " + shape.layout.to_string() + "\n  policy: " + shape.policy.to_string() +
         "\n  workers: " + std::to_string(shape.first) + " to " + std::to_string(shape.last) +
         ", each with " + std::to_string(static_cast<std::int64_t>(shape.layout.ids_per_second())) +
         " ids a second at most\n  the times end at " + id_time_text(shape.layout.end()) + "\n";
}

int id_command(const IdOptions& options) {
  if (options.verb == "decode") return decode(options);
  if (options.file && options.verb == "init") return init(options);
  if (options.file && options.verb == "workers") return show_workers(options);
  if (options.file || options.uuid || options.ulid) return next(options);
  Settings settings;
  if (auto resolved = resolve(options.common, settings); !resolved) {
    return fail(resolved.error(), "");
  }
  IdOptions in_store = options;
  in_store.common.store = settings.store.url;
  if (options.verb == "init") return init_store_ids(in_store);
  if (options.verb == "workers") return show_store_workers(in_store);
  if (options.verb == "status") return show_segments(in_store);
  if (options.verb == "floor") return set_segments_floor(in_store);
  return next(in_store);
}

}  // namespace holdfast::cli
