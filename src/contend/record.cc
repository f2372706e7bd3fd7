#include "src/contend/record.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "holdfast/detail/number.h"
#include "holdfast/detail/percent.h"
#include "src/base/printable.h"
#include "src/base/random.h"

namespace holdfast::contend {
namespace {

using detail::parse_number;

// Room for five texts of the longest size with every byte escaped, and for the other fields.
constexpr std::size_t kMostText = 32 * 1024;
constexpr std::size_t kMostField = 2048;
constexpr std::string_view kFormat = "hf1";

std::optional<machine::AcquisitionId> parse_id(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  const auto half = [](std::string_view digits) -> std::optional<std::uint64_t> {
    std::uint64_t value = 0;
    for (const char c : digits) {
      const bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
      if (!digit) return std::nullopt;
      value = value << 4 | static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return value;
  };
  const auto high = half(text.substr(0, 16));
  const auto low = half(text.substr(16));
  if (!high || !low || (*high | *low) == 0) return std::nullopt;
  return machine::AcquisitionId{*high, *low};
}

std::string text_of(const machine::AcquisitionId& id) { return base::to_hex(id.high, id.low); }

// "<n>.<N>"
bool parse_permits(std::string_view text, Key& key) {
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return false;
  const auto permits = parse_number<std::uint32_t>(text.substr(0, dot));
  const auto capacity = parse_number<std::uint32_t>(text.substr(dot + 1));
  if (!permits || !capacity || *permits == 0 || *capacity == 0) return false;
  key.permits = *permits;
  key.capacity = *capacity;
  return true;
}

// --- Text of fields.

class Writer {
 public:
  void add(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    text_.append(" ").append(name).append("=");
    text_ += detail::percent_encode(
        value.substr(0, kMostField), [](char c) { return detail::is_visible(c) && c != '%'; },
        detail::kLowerDigits);
  }
  void add(std::string_view name, std::uint64_t value) {
    if (value != 0) add(name, std::to_string(value));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_{kFormat};
};

class Fields {
 public:
  static Result<Fields> parse(std::string_view text, std::string_view what) {
    if (text.size() > kMostText) return corrupt(what, "is too long");
    Fields fields;
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view format = text.substr(0, end);
    if (format != kFormat) {
      if (format.size() < 8 && format.starts_with("hf") &&
          parse_number<unsigned>(format.substr(2))) {
        return Error(Errc::kVersionMismatch, std::string(what) + " is of format " +
                                                 std::string(format) +
                                                 ", which this version does not know: upgrade");
      }
      return corrupt(what, "is not Holdfast's");
    }
    for (std::size_t at = end; at < text.size();) {
      const std::size_t next = std::min(text.find(' ', at + 1), text.size());
      const std::string_view field = text.substr(at + 1, next - at - 1);
      const std::size_t equals = field.find('=');
      at = next;
      if (equals == std::string_view::npos) continue;
      auto value = detail::percent_decode(field.substr(equals + 1));
      if (!value) return corrupt(what, "has a field that cannot be read");
      fields.all_.emplace_back(field.substr(0, equals), *std::move(value));
    }
    return fields;
  }

  std::string text(std::string_view name) const {
    for (const auto& [known, value] : all_) {
      if (known == name) return value;
    }
    return {};
  }
  bool has(std::string_view name) const { return !text(name).empty(); }
  std::optional<std::uint64_t> whole(std::string_view name) const {
    return parse_number<std::uint64_t>(text(name));
  }

 private:
  static Error corrupt(std::string_view what, std::string_view why) {
    return {Errc::kCorruptState, std::string(what) + " " + std::string(why)};
  }

  std::vector<std::pair<std::string_view, std::string>> all_;
};

void add_owner(Writer& writer, const machine::OwnerPtr& owner) {
  if (!owner) return;
  writer.add("owner", owner->owner);
  writer.add("host", owner->host);
  writer.add("pid", owner->pid > 0 ? static_cast<std::uint64_t>(owner->pid) : 0);
  writer.add("program", owner->program);
  writer.add("reason", owner->reason);
  writer.add("since",
             owner->since_unix_ms > 0 ? static_cast<std::uint64_t>(owner->since_unix_ms) : 0);
  writer.add("trace", owner->trace_id);
  writer.add("delay_us",
             static_cast<std::uint64_t>(std::max<std::int64_t>(0, owner->lock_delay.count())));
}

machine::OwnerPtr owner_from(const Fields& fields) {
  machine::OwnerInfo owner;
  owner.owner = fields.text("owner");
  owner.host = fields.text("host");
  owner.pid = parse_number<std::int64_t>(fields.text("pid")).value_or(0);
  owner.program = fields.text("program");
  owner.reason = fields.text("reason");
  owner.since_unix_ms = parse_number<std::int64_t>(fields.text("since")).value_or(0);
  owner.trace_id = fields.text("trace");
  owner.lock_delay =
      std::clamp(machine::Duration(parse_number<std::int64_t>(fields.text("delay_us")).value_or(0)),
                 machine::Duration::zero(), machine::Duration(std::chrono::hours(24)));
  return std::make_shared<const machine::OwnerInfo>(std::move(owner));
}

void add_kept(Writer& writer, const Kept& kept) {
  writer.add("kept", text_of(kept.id));
  writer.add("kept_seq", kept.seq);
  writer.add("kept_us", static_cast<std::uint64_t>(std::max<std::int64_t>(0, kept.ttl.count())));
  writer.add("kept_by", kept.lease);
  writer.add("kept_created", kept.created);
}

std::shared_ptr<const Kept> kept_from(const Fields& fields) {
  const auto id = parse_id(fields.text("kept"));
  if (!id) return nullptr;
  Kept kept;
  kept.id = *id;
  kept.seq = fields.whole("kept_seq").value_or(0);
  kept.ttl = machine::Duration(parse_number<std::int64_t>(fields.text("kept_us")).value_or(0));
  kept.lease = fields.text("kept_by");
  kept.created = fields.whole("kept_created").value_or(0);
  return std::make_shared<const Kept>(std::move(kept));
}

}  // namespace

Key key_for(const machine::AcquisitionId& id, const machine::Mode& mode,
            const machine::AcquisitionId& upgrade_of) {
  Key key;
  key.id = id;
  switch (mode.kind) {
    case machine::ModeKind::kExclusive:
      key.shape = upgrade_of ? Shape::kUpgrade : Shape::kExclusive;
      key.upgrade_of = upgrade_of;
      break;
    case machine::ModeKind::kShared: key.shape = Shape::kShared; break;
    case machine::ModeKind::kPermits:
      key.shape = Shape::kPermits;
      key.permits = mode.permits;
      key.capacity = mode.capacity;
      break;
  }
  return key;
}

machine::Mode mode_of(const Key& key) {
  switch (key.shape) {
    case Shape::kExclusive:
    case Shape::kUpgrade: return machine::Mode::exclusive();
    case Shape::kShared: return machine::Mode::shared();
    case Shape::kPermits:
    case Shape::kShrink: return machine::Mode::of_permits(key.permits, key.capacity);
  }
  return machine::Mode::exclusive();
}

std::string to_text(const Key& key) {
  const std::string numbers = std::to_string(key.permits) + "." + std::to_string(key.capacity);
  std::string text = text_of(key.id) + "-";
  switch (key.shape) {
    case Shape::kExclusive: return text + "x";
    case Shape::kShared: return text + "s";
    case Shape::kPermits: return text + "p" + numbers;
    case Shape::kUpgrade: return text + "u" + text_of(key.upgrade_of);
    case Shape::kShrink: return text + "r" + numbers;
  }
  return text;
}

std::optional<Key> parse_key(std::string_view text) {
  if (text.size() < 34 || text[32] != '-') return std::nullopt;
  const auto id = parse_id(text.substr(0, 32));
  if (!id) return std::nullopt;
  Key key;
  key.id = *id;
  const std::string_view rest = text.substr(34);
  switch (text[33]) {
    case 'x':
      if (!rest.empty()) return std::nullopt;
      return key;
    case 's':
      if (!rest.empty()) return std::nullopt;
      key.shape = Shape::kShared;
      return key;
    case 'u': {
      const auto base = parse_id(rest);
      if (!base || *base == *id) return std::nullopt;
      key.shape = Shape::kUpgrade;
      key.upgrade_of = *base;
      return key;
    }
    case 'p':
    case 'r':
      if (!parse_permits(rest, key)) return std::nullopt;
      key.shape = text[33] == 'p' ? Shape::kPermits : Shape::kShrink;
      return key;
    default: return std::nullopt;
  }
}

std::string to_text(const Details& details) {
  Writer writer;
  writer.add("weakened", details.weakened ? 1U : 0U);
  writer.add("marked", details.marked ? 1U : 0U);
  writer.add("attempt", details.attempt ? 1U : 0U);
  writer.add("token", details.token.value_or(0));
  writer.add("lease_us",
             static_cast<std::uint64_t>(std::max<std::int64_t>(0, details.lease.count())));
  writer.add("session", details.session);
  if (details.kept) add_kept(writer, *details.kept);
  add_owner(writer, details.owner);
  return writer.take();
}

Result<Details> parse_details(std::string_view text) {
  const auto fields = Fields::parse(text, "a contender's record");
  if (!fields) return fields.error();
  Details details;
  details.weakened = fields->has("weakened");
  details.marked = fields->has("marked");
  details.attempt = fields->has("attempt");
  details.token = fields->whole("token");
  details.lease =
      machine::Duration(parse_number<std::int64_t>(fields->text("lease_us")).value_or(0));
  details.session = fields->text("session");
  details.kept = kept_from(*fields);
  details.owner = owner_from(*fields);
  return details;
}

Details read_details(std::string_view text, std::string_view key) {
  auto details = parse_details(text);
  if (details) return *std::move(details);
  const Error& why = details.error();
  const bool later = why.code() == Errc::kVersionMismatch;
  Details unknown;
  unknown.unreadable = std::make_shared<Error>(
      why.code(),
      why.message() +
          (later ? "" : ": remove it with the store's own tools, unless somebody holds by it") +
          " (key '" + base::printable(key) + "')");
  return unknown;
}

std::string to_text(const Record& record) {
  Writer writer;
  if (record.upgrade) writer.add("upgrade", text_of(record.upgrade));
  writer.add("capacity", record.capacity.value_or(0));
  if (record.broken) {
    writer.add("broken", record.broken->token);
    if (record.broken->id) writer.add("broken_id", text_of(record.broken->id));
    add_owner(writer, record.broken->by);
  }
  return writer.take();
}

Result<Record> parse_record(std::string_view text) {
  Record record;
  if (text.empty()) return record;
  const auto fields = Fields::parse(text, "a lock's record");
  if (!fields) return fields.error();
  record.upgrade = parse_id(fields->text("upgrade")).value_or(machine::AcquisitionId{});
  record.capacity = parse_number<std::uint32_t>(fields->text("capacity"));
  if (record.capacity == 0U) record.capacity.reset();
  if (const auto token = fields->whole("broken")) {
    record.broken =
        Trace{*token, parse_id(fields->text("broken_id")).value_or(machine::AcquisitionId{}),
              owner_from(*fields)};
  }
  return record;
}

Result<Record> read_record(std::string_view text, std::string_view key) {
  auto record = parse_record(text);
  if (record) return record;
  const Error& why = record.error();
  const bool later = why.code() == Errc::kVersionMismatch;
  return Error(why.code(), why.message() +
                               (later ? "" : ": fix or empty it with the store's own tools") +
                               " (key '" + base::printable(key) + "')");
}

}  // namespace holdfast::contend
