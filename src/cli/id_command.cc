// `id`: ids of this host, and what is in an id.

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/detail/number.h"
#include "holdfast/ids/host_workers.h"
#include "holdfast/ids/uuid.h"
#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
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

constexpr std::string_view kDefaultLayout = "time:41 worker:10 sequence:12";
constexpr std::uint64_t kDefaultWorkers = 64;
constexpr std::string_view kNameLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

std::string time_text(milliseconds unix_time) {
  return iso_time(std::chrono::system_clock::time_point(unix_time));
}

Result<std::string> file_of(const IdOptions& options, bool make_folder) {
  if (options.file) return *options.file;
  const std::string& name = options.what;
  const bool plain = name.find_first_not_of(kNameLetters) == name.npos && name.front() != '.';
  if (!plain || name.size() > 200) {
    return invalid("NAME " + in_quotes(name) +
                   ": it names a file, so it has letters, digits, '.', '_' and '-' only, and does "
                   "not begin with '.'");
  }
  auto folder = default_ids_folder();
  if (!folder) return folder;
  std::error_code ignored;  // The file that is made in the folder tells why it cannot.
  if (make_folder) std::filesystem::create_directories(*folder, ignored);
  return *folder + "/" + name + ".ids";
}

Result<std::pair<std::uint64_t, std::uint64_t>> range_of(const IdOptions& options,
                                                         const Layout& layout) {
  if (!options.workers) {
    return std::pair{std::uint64_t{0}, std::min(kDefaultWorkers, layout.workers()) - 1};
  }
  const std::string& text = *options.workers;
  const std::size_t dash = text.find('-');
  const auto number = [&](std::size_t from, std::size_t length) {
    return detail::parse_number<std::uint64_t>(std::string_view(text).substr(from, length));
  };
  const auto first = number(0, dash);
  const auto last = dash == text.npos ? first : number(dash + 1, text.npos);
  if (first && last) return std::pair{*first, *last};
  return invalid("--workers: " + in_quotes(text) + " is no range: write 0-63, or one number");
}

int failed(const IdOptions& options, const Error& error) {
  complain("id " + options.verb + ": " + printable(error.message()));
  return kExitError;
}

Result<ids::HostWorkersSpec> spec_of(const IdOptions& options) {
  const auto layout = Layout::parse(options.layout.value_or(std::string(kDefaultLayout)));
  if (!layout) return layout.error();
  const auto policy = ids::ClockPolicy::parse(options.policy.value_or("logical"));
  if (!policy) return policy.error();
  const auto range = range_of(options, *layout);
  if (!range) return range.error();
  return ids::HostWorkersSpec{*layout, *policy, range->first, range->second};
}

int init(const IdOptions& options) {
  const auto file = file_of(options, /*make_folder=*/true);
  if (!file) return usage_error("id", file.error());
  const auto spec = spec_of(options);
  if (!spec) return usage_error("id", spec.error());
  if (auto made = HostWorkers::create(*file, *spec); !made) return failed(options, made.error());
  const Layout& layout = spec->layout;
  const auto per_second = static_cast<std::int64_t>(layout.ids_per_second());
  return answer(options.common,
                {{"file", *file},
                 {"layout", layout.to_string()},
                 {"policy", spec->policy.to_string()},
                 {"first_worker", spec->first},
                 {"last_worker", spec->last},
                 {"ids_per_second", per_second},
                 {"ends", time_text(layout.end())}},
                "made " + printable(*file) + "\n  layout: " + layout.to_string() +
                    "\n  policy: " + spec->policy.to_string() + "\n  workers: " +
                    std::to_string(spec->first) + " to " + std::to_string(spec->last) +
                    ", each with " + std::to_string(per_second) +
                    " ids a second at most\n  the times end at " + time_text(layout.end()) + "\n");
}

Result<std::unique_ptr<ids::IdSource>> source_of(const IdOptions& options) {
  if (options.uuid) return std::unique_ptr<ids::IdSource>(std::make_unique<ids::UuidV7>());
  if (options.ulid) return std::unique_ptr<ids::IdSource>(std::make_unique<ids::Ulid>());
  const auto file = file_of(options, /*make_folder=*/false);
  if (!file) return file.error();
  const auto workers = HostWorkers::open(*file);
  if (!workers) return workers.error();
  auto taken = workers->take();
  if (!taken) return taken.error();
  return std::unique_ptr<ids::IdSource>(*std::move(taken));
}

int next(const IdOptions& options) {
  const auto source = source_of(options);
  if (!source) return failed(options, source.error());
  for (int i = 0; i < options.count; ++i) {
    const auto id = (*source)->next();
    if (!id) return failed(options, id.error());
    print(options.common.json ? to_line({{"id", id->to_string()}}) : id->to_string() + "\n");
  }
  return flush_output() ? 0 : kExitError;
}

Result<Layout> layout_of(const IdOptions& options) {
  if (options.layout) return Layout::parse(*options.layout);
  if (!options.file) {
    return invalid("a number needs the layout that it was made with: give --layout or --file");
  }
  const auto workers = HostWorkers::open(*options.file);
  if (!workers) return workers.error();
  return workers->spec().layout;
}

int decode(const IdOptions& options) {
  const auto id = Id::parse(options.what);
  if (!id) {
    return usage_error("id", invalid(in_quotes(options.what) +
                                     " is no id: neither a number of 63 bits, a UUID nor a ULID"));
  }
  if (const auto time = ids::time_of(*id)) {
    return answer(options.common, {{"id", id->to_string()}, {"time", time_text(*time)}},
                  "time " + time_text(*time) + "\n");
  }
  if (id->form != ids::IdForm::kNumber) {
    return failed(options, invalid("a UUID of another version than 7 has no time that grows"));
  }
  const auto layout = layout_of(options);
  if (!layout) return failed(options, layout.error());
  const auto parts = layout->decode(*id);
  if (!parts) return failed(options, parts.error());
  Json out{{"id", id->to_string()}, {"time", time_text(parts->unix_time)}};
  std::string text = "time " + time_text(parts->unix_time) + " (the generator's own)\n";
  for (const ids::LayoutField& field : layout->spec().fields) {
    if (field.name == "time") continue;
    const std::uint64_t value = *layout->field(*id, field.name);
    out[field.name] = value;
    text += printable(field.name) + " " + std::to_string(value) + "\n";
  }
  return answer(options.common, out, text);
}

int show_workers(const IdOptions& options) {
  const auto file = file_of(options, /*make_folder=*/false);
  if (!file) return usage_error("id", file.error());
  const auto open = HostWorkers::open(*file);
  const auto found = open ? open->workers() : Result<std::vector<ids::HostWorker>>(open.error());
  if (!found) return failed(options, found.error());
  Table table({"WORKER", "HELD", "PID", "SINCE", "RESERVED UNTIL"});
  for (const ids::HostWorker& each : *found) {
    if (each.pid == 0) continue;  // Nobody has ever taken it.
    const std::string since = time_text(each.since);
    const std::string until = time_text(each.reserved_until);
    if (options.common.json) {
      print(to_line({{"worker", each.worker},
                     {"held", each.held},
                     {"pid", each.pid},
                     {"since", since},
                     {"reserved_until", until}}));
    } else {
      table.add({std::to_string(each.worker), each.held ? "yes" : "no",
                 std::to_string(each.pid), since, until});
    }
  }
  if (!options.common.json) print(table.to_string(colour_wanted(), terminal_width()));
  return flush_output() ? 0 : kExitError;
}

}  // namespace

int id_command(const IdOptions& options) {
  if (options.verb == "init") return init(options);
  if (options.verb == "decode") return decode(options);
  if (options.verb == "workers") return show_workers(options);
  return next(options);
}

}  // namespace holdfast::cli
