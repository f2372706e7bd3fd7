#include "holdfast/ids/layout.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <ctime>
#include <utility>

#include "holdfast/detail/number.h"

namespace holdfast::ids {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::string_view kTime = "time";
constexpr std::string_view kSequence = "sequence";
constexpr int kMostBits = 63;
constexpr int kMostPartBits = 32;
// Each start of a generator leaves a unit out.
constexpr milliseconds kLongestUnit = std::chrono::seconds(10);
constexpr milliseconds kTwitterEpoch{1'288'834'974'657};
constexpr milliseconds kSonyflakeEpoch{1'735'689'600'000};  // 2025-01-01
constexpr milliseconds kOurEpoch{1'767'225'600'000};        // 2026-01-01

Error invalid(std::string what) { return {Errc::kInvalidArgument, "layout: " + std::move(what)}; }

struct Preset {
  std::string_view name;
  LayoutSpec spec;
};

const std::vector<Preset>& known() {
  static const std::vector<Preset> presets{
      {"twitter",
       {{{"time", 41}, {"datacenter", 5}, {"machine", 5}, {"sequence", 12}},
        milliseconds(1),
        kTwitterEpoch}},
      {"twitter-machine-first",
       {{{"time", 41}, {"machine", 5}, {"datacenter", 5}, {"sequence", 12}},
        milliseconds(1),
        kTwitterEpoch}},
      {"leaf", {{{"time", 41}, {"worker", 10}, {"sequence", 12}}, milliseconds(1), kTwitterEpoch}},
      {"uidgenerator",
       {{{"time", 28}, {"worker", 22}, {"sequence", 13}}, milliseconds(1'000), kOurEpoch}},
      {"sonyflake",
       {{{"time", 39}, {"sequence", 8}, {"worker", 16}}, milliseconds(10), kSonyflakeEpoch}},
      {"javascript", {{{"time", 41}, {"worker", 4}, {"sequence", 8}}, milliseconds(1), kOurEpoch}},
  };
  return presets;
}

// "10ms", "1s", "250".
std::optional<milliseconds> parse_unit(std::string_view text) {
  std::int64_t factor = 1;
  if (text.ends_with("ms")) {
    text.remove_suffix(2);
  } else if (text.ends_with('s')) {
    text.remove_suffix(1);
    factor = 1'000;
  }
  const auto number = detail::parse_number<std::int32_t>(text);
  if (!number) return std::nullopt;
  return milliseconds(*number * factor);
}

// "2026-01-01", midnight in UTC, or milliseconds since 1970.
std::optional<milliseconds> parse_epoch(std::string_view text) {
  if (const auto number = detail::parse_number<std::int64_t>(text)) return milliseconds(*number);
  const std::string copy(text);
  std::tm parts{};
  const char* end = ::strptime(copy.c_str(), "%Y-%m-%d", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  const int day = parts.tm_mday;
  const std::time_t seconds = ::timegm(&parts);
  if (parts.tm_mday != day) return std::nullopt;  // The month has no such day.
  return milliseconds(seconds * std::int64_t{1'000});
}

bool is_name(const std::string& name) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  const bool taken = name == "id" || name == "unit" || name == "epoch";
  return !name.empty() && !taken && std::all_of(name.begin(), name.end(), fits);
}

bool has_bits_above(std::uint64_t value, int bits) { return bits < 64 && value >> bits != 0; }

}  // namespace

Layout::Layout(LayoutSpec spec) : spec_(std::move(spec)) {
  for (auto field = spec_.fields.rbegin(); field != spec_.fields.rend(); ++field) {
    const Bits place{bits_, field->bits};
    bits_ += field->bits;
    if (field->name == kTime) {
      time_ = place;
    } else if (field->name == kSequence) {
      sequence_ = place;
    } else {
      worker_.insert(worker_.begin(), place);
      worker_bits_ += field->bits;
    }
  }
}

Result<Layout> Layout::make(LayoutSpec spec) {
  int times = 0;
  int worker_bits = 0;
  int all = 0;
  for (std::size_t i = 0; i < spec.fields.size(); ++i) {
    const LayoutField& field = spec.fields[i];
    const bool is_time = field.name == kTime;
    const bool is_sequence = field.name == kSequence;
    const auto same = [&](const LayoutField& other) { return other.name == field.name; };
    if (!is_name(field.name) || std::count_if(spec.fields.begin(), spec.fields.end(), same) > 1) {
      return invalid(
          "each field needs a name of its own, of letters, digits, '-' and '_', which is not 'id', "
          "'unit' or 'epoch'");
    }
    if (field.bits < 1 || field.bits > kMostBits) {
      return invalid("field '" + field.name + "' must have from 1 to 63 bits");
    }
    times += is_time ? 1 : 0;
    if (is_sequence && field.bits > kMostPartBits) return invalid("at most 32 bits of sequence");
    if (!is_time && !is_sequence) worker_bits += field.bits;
    all += field.bits;
  }
  if (times != 1) return invalid("it needs a field 'time'");
  if (all > kMostBits) {
    return invalid(std::to_string(all) + " bits in all: an id has 63, so that it fits BIGINT");
  }
  if (worker_bits > kMostPartBits) return invalid("at most 32 bits for the worker");
  if (spec.unit < milliseconds(1) || spec.unit > kLongestUnit) {
    return invalid("the unit must be from 1 ms to 10 s");
  }
  // Times are counted in nanoseconds of 63 bits since 1970, which end in 2262.
  const auto latest = std::chrono::duration_cast<milliseconds>(nanoseconds::max());
  if (spec.epoch < milliseconds::zero() || spec.epoch > latest / 2) {
    return invalid("the epoch must lie between 1970 and 2116");
  }
  if (spec.epoch > milliseconds::zero() && spec.epoch < milliseconds(10'000)) {
    return invalid("an epoch of " + std::to_string(spec.epoch.count()) +
                   " ms after 1970: write a year's first day as epoch:2026-01-01");
  }
  return Layout(std::move(spec));
}

Result<Layout> Layout::parse(std::string_view text) {
  for (const Preset& preset : known()) {
    if (preset.name == text) return make(preset.spec);
  }
  LayoutSpec spec;
  spec.epoch = kOurEpoch;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t space = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, space - at);
    at = space + 1;
    if (word.empty()) continue;
    const std::size_t colon = word.find(':');
    const std::string name(word.substr(0, colon));
    if (colon == word.npos) {
      std::string names;
      for (const std::string& preset : presets()) names += (names.empty() ? "" : ", ") + preset;
      return invalid("'" + name + "' is no preset (" + names +
                     ") and no field: write \"time:41 worker:10 sequence:12\"");
    }
    const std::string_view value = word.substr(colon + 1);
    if (name == "unit") {
      const auto unit = parse_unit(value);
      if (!unit) return invalid("'" + std::string(word) + "': write unit:10ms or unit:1s");
      spec.unit = *unit;
    } else if (name == "epoch") {
      const auto epoch = parse_epoch(value);
      if (!epoch) {
        return invalid("'" + std::string(word) +
                       "': write epoch:2026-01-01, or milliseconds since 1970");
      }
      spec.epoch = *epoch;
    } else {
      const auto bits = detail::parse_number<int>(value);
      if (!bits) return invalid("'" + std::string(word) + "': the bits must be a number");
      spec.fields.push_back({name, *bits});
    }
  }
  return make(std::move(spec));
}

const std::vector<std::string>& Layout::presets() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Preset& preset : known()) all.emplace_back(preset.name);
    return all;
  }();
  return names;
}

std::string Layout::to_string() const {
  std::string text;
  for (const LayoutField& field : spec_.fields) {
    text += field.name + ":" + std::to_string(field.bits) + " ";
  }
  return text + "unit:" + std::to_string(spec_.unit.count()) +
         "ms epoch:" + std::to_string(spec_.epoch.count());
}

double Layout::ids_per_second() const {
  return static_cast<double>(std::uint64_t{1} << sequence_.bits) * 1'000.0 /
         static_cast<double>(spec_.unit.count());
}

milliseconds Layout::lifetime() const {
  const std::int64_t units = static_cast<std::int64_t>((std::uint64_t{1} << time_.bits) - 1) +
                             (time_.bits < kMostBits ? 1 : 0);
  const std::int64_t most = (milliseconds::max() - spec_.epoch) / spec_.unit;
  return spec_.unit * std::min(units, most);
}

std::int64_t Layout::last_unit() const {
  const auto units = static_cast<std::int64_t>((std::uint64_t{1} << time_.bits) - 1);
  const auto latest = std::chrono::duration_cast<milliseconds>(nanoseconds::max());
  return std::min(units, (latest - spec_.epoch) / spec_.unit);
}

std::int64_t Layout::unit_of(nanoseconds unix_time) const {
  const nanoseconds since = unix_time - spec_.epoch;
  const std::int64_t unit = since / nanoseconds(spec_.unit);
  return since < nanoseconds::zero() ? unit - 1 : unit;
}

std::uint64_t Layout::place_worker(std::uint64_t worker) const {
  std::uint64_t placed = 0;
  int left = worker_bits_;
  for (const Bits& place : worker_) {
    left -= place.bits;
    const std::uint64_t part = worker >> left & ((std::uint64_t{1} << place.bits) - 1);
    placed |= part << place.shift;
  }
  return placed;
}

Result<Id> Layout::compose(std::uint64_t time, std::uint64_t worker, std::uint64_t sequence) const {
  const std::array<std::tuple<const char*, std::uint64_t, int>, 3> parts{
      {{"time", time, time_.bits},
       {"worker", worker, worker_bits_},
       {"sequence", sequence, sequence_.bits}}};
  for (const auto& [name, value, bits] : parts) {
    if (has_bits_above(value, bits)) {
      return invalid(std::string(name) + " " + std::to_string(value) + " does not fit " +
                     std::to_string(bits) + " bits");
    }
  }
  return Id::of(pack(time, place_worker(worker), sequence));
}

Result<Decoded> Layout::decode(const Id& id) const {
  if (id.form != IdForm::kNumber) return invalid("only a number has time, worker and sequence");
  const std::uint64_t value = id.number();
  if (has_bits_above(value, bits_)) {
    return invalid("the id has more than " + std::to_string(bits_) +
                   " bits: it was not made with this layout");
  }
  const auto take = [value](const Bits& place) {
    return value >> place.shift & ((std::uint64_t{1} << place.bits) - 1);
  };
  Decoded parts;
  parts.time = take(time_);
  parts.sequence = take(sequence_);
  for (const Bits& place : worker_) parts.worker = parts.worker << place.bits | take(place);
  const std::int64_t most = (milliseconds::max() - spec_.epoch) / spec_.unit;
  if (parts.time > static_cast<std::uint64_t>(most)) return invalid("a time beyond all calendars");
  parts.unix_time = spec_.epoch + spec_.unit * static_cast<std::int64_t>(parts.time);
  return parts;
}

std::optional<std::uint64_t> Layout::field(const Id& id, std::string_view name) const {
  int shift = bits_;
  for (const LayoutField& each : spec_.fields) {
    shift -= each.bits;
    if (each.name == name) return id.number() >> shift & ((std::uint64_t{1} << each.bits) - 1);
  }
  return std::nullopt;
}

}  // namespace holdfast::ids
