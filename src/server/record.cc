#include "src/server/record.h"

#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "src/base/fnv.h"
#include "src/rows/owner_codec.h"

namespace holdfast::server {
namespace {

using machine::Duration;
using machine::Effect;
using machine::EffectKind;
using machine::Instant;
using machine::ModeKind;

constexpr std::string_view kMagic = "HFJ";
constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kVersionWithKept = 2;
constexpr std::size_t kChecksumSize = 8;

// Items. An effect is its EffectKind; the others are above all of these.
constexpr std::uint8_t kFloorItem = 0xF0;
constexpr std::uint8_t kMarkItem = 0xF1;
constexpr std::uint8_t kClientFloorItem = 0xF2;
constexpr std::uint8_t kLockItem = 0xF3;
constexpr std::uint8_t kTraceItem = 0xF4;
constexpr std::uint8_t kClosingItem = 0xF5;
constexpr std::uint8_t kKeptItem = 0xF6;
constexpr std::uint8_t kEndItem = 0xFF;

// Gathers the fields of an item and appends them at once. Appending them one by one to the record
// would look at its room for each byte of a number.
class Output {
 public:
  explicit Output(std::string& out) : out_(out) {}

  void byte(std::uint8_t value) {
    reserve(1);
    bytes_[size_++] = static_cast<char>(value);
  }

  void number(std::uint64_t value) {
    reserve(kLongestNumber);
    for (; value >= 0x80; value >>= 7U) bytes_[size_++] = static_cast<char>(value | 0x80U);
    bytes_[size_++] = static_cast<char>(value);
  }

  void fixed(std::uint64_t value) {
    reserve(8);
    std::array<char, 8> bytes{};  // The compiler makes one store of it.
    for (unsigned at = 0; at < 8; ++at) bytes[at] = static_cast<char>(value >> (8 * at));
    std::memcpy(bytes_.data() + size_, bytes.data(), bytes.size());
    size_ += bytes.size();
  }

  void text(std::string_view text) {
    number(text.size());
    if (text.size() > bytes_.size() - size_) end();
    if (text.size() > bytes_.size()) {
      out_.append(text);
    } else if (!text.empty()) {
      std::memcpy(bytes_.data() + size_, text.data(), text.size());
      size_ += text.size();
    }
  }

  void id(const machine::AcquisitionId& id) {
    fixed(id.high);
    fixed(id.low);
  }

  void token(machine::Token token) {
    number(token.epoch);
    number(token.counter);
  }

  void span(std::int64_t value) { number(static_cast<std::uint64_t>(value)); }
  void instant(Instant at) { span(at.time_since_epoch().count()); }

  // To be called last.
  void end() {
    out_.append(bytes_.data(), size_);
    size_ = 0;
  }

 private:
  static constexpr std::size_t kLongestNumber = 10;

  void reserve(std::size_t size) {
    if (size > bytes_.size() - size_) end();
  }

  std::string& out_;
  std::array<char, 512> bytes_;
  std::size_t size_ = 0;
};

// Which fields an effect of this kind carries beside the lock's name and the acquisition's id.
struct RecordFields {
  bool whole = false;  // Everything about a ticket.
  bool order = false;
  bool lease = false;
  bool token = false;
  bool owner = false;
  bool until = false;
  bool capacity = false;
  bool value = false;
};

constexpr RecordFields fields_of(EffectKind kind) {
  switch (kind) {
    case EffectKind::kQueued:
    case EffectKind::kGranted:
      return {.whole = true, .order = true, .lease = true, .token = true, .owner = true};
    case EffectKind::kExtended: return {.order = true, .lease = true};
    case EffectKind::kBroken: return {.order = true, .token = true, .owner = true};
    case EffectKind::kReleased:
    case EffectKind::kCancelled:
    case EffectKind::kExpired:
    case EffectKind::kDropped:
    case EffectKind::kDowngraded: return {.order = true};
    case EffectKind::kResized: return {.capacity = true};
    case EffectKind::kValueSet: return {.value = true};
    case EffectKind::kTombstone: return {.until = true};
    case EffectKind::kTombstoneDropped: return {};
    case EffectKind::kForgotten: return {.token = true};
  }
  return {};
}

// Takes fields off the front of what is left. After the first thing that is not there, everything
// is zero and ok() is false.
class Input {
 public:
  explicit Input(std::string_view bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}

  bool ok() const { return ok_; }
  bool empty() const { return at_ == end_; }

  std::uint8_t byte() {
    if (at_ == end_) fail();
    return ok_ ? static_cast<std::uint8_t>(*at_++) : std::uint8_t{0};
  }

  std::uint64_t number() {
    // Most numbers are below 128.
    if (at_ != end_ && static_cast<std::uint8_t>(*at_) < 0x80) {
      return static_cast<std::uint8_t>(*at_++);
    }
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t next = byte();
      const std::uint64_t bits = next & 0x7FU;
      if (shift == 63 && bits > 1) break;
      value |= bits << shift;
      if ((next & 0x80U) == 0) return ok_ ? value : 0;
    }
    fail();
    return 0;
  }

  std::uint32_t small_number() {
    const std::uint64_t value = number();
    if (value > UINT32_MAX) fail();
    return ok_ ? static_cast<std::uint32_t>(value) : 0;
  }

  std::int64_t span() { return static_cast<std::int64_t>(number()); }
  Duration duration() { return Duration(span()); }
  Instant instant() { return Instant(duration()); }
  std::string text() { return std::string(view()); }

  std::string_view view() { return take(number()); }

  std::uint64_t fixed() {
    const std::string_view bytes = take(8);
    if (bytes.empty()) return 0;
    std::uint64_t value = 0;
    for (std::size_t at = 8; at > 0; --at) {
      value = (value << 8U) | static_cast<std::uint8_t>(bytes[at - 1]);
    }
    return value;
  }

  machine::AcquisitionId id() {
    machine::AcquisitionId id;
    id.high = fixed();
    id.low = fixed();
    return id;
  }

  machine::Token token() {
    machine::Token token;
    token.epoch = small_number();
    token.counter = number();
    return token;
  }

  ModeKind mode_kind() {
    const std::uint8_t kind = byte();
    if (kind > static_cast<std::uint8_t>(ModeKind::kPermits)) fail();
    return ok_ ? static_cast<ModeKind>(kind) : ModeKind::kExclusive;
  }

  machine::OwnerPtr owner() {
    auto owner = rows::decode_owner(view());
    if (!owner) fail();
    return owner ? *std::move(owner) : nullptr;
  }

 private:
  void fail() {
    ok_ = false;
    at_ = end_;
  }

  std::string_view take(std::uint64_t size) {
    if (size > static_cast<std::uint64_t>(end_ - at_)) {
      fail();
      return {};
    }
    const std::string_view taken(at_, static_cast<std::size_t>(size));
    at_ += size;
    return taken;
  }

  const char* at_;
  const char* end_;
  bool ok_ = true;
};

void take_effect(Input& in, EffectKind kind, Effect& effect) {
  const RecordFields fields = fields_of(kind);
  effect = Effect{};
  effect.kind = kind;
  effect.name = in.view();
  effect.id = in.id();
  if (fields.order) effect.order = in.number();
  if (fields.whole) {
    effect.mode.kind = in.mode_kind();
    effect.mode.permits = in.small_number();
    effect.mode.capacity = in.small_number();
    effect.upgrade_of = in.id();
    effect.system = in.byte() != 0;
    effect.ttl = in.duration();
    effect.waiter_ttl = in.duration();
  }
  if (fields.lease) {
    effect.lease_end = in.instant();
    effect.seq = in.number();
    effect.lease = in.duration();
  }
  if (fields.token) effect.token = in.token();
  if (fields.owner) effect.owner = in.owner();
  if (fields.until) effect.lease_end = in.instant();
  if (fields.capacity) effect.mode.capacity = in.small_number();
  if (fields.value) effect.value = in.view();
}

// A reading uses these again for each item, because texts keep their memory.
struct Scratch {
  Effect effect;
  LockHead lock;
};

// False: the item is damaged, or the visitor refused it.
bool read_item(Input& in, std::uint8_t item, RecordVisitor& visitor, Scratch& scratch) {
  switch (item) {
    case kFloorItem: {
      const machine::Token floor = in.token();
      return in.ok() && visitor.on_floor(floor);
    }
    case kMarkItem: {
      std::string client = in.text();
      std::string lock = in.text();
      const std::uint64_t issue = in.number();
      return in.ok() && visitor.on_mark(std::move(client), std::move(lock), issue);
    }
    case kClientFloorItem: {
      std::string client = in.text();
      const std::uint64_t issue = in.number();
      return in.ok() && visitor.on_client_floor(std::move(client), issue);
    }
    case kLockItem: {
      LockHead& lock = scratch.lock;
      lock.name = in.view();
      lock.kind = in.mode_kind();
      lock.capacity = in.small_number();
      lock.last_token = in.token();
      lock.next_order = in.number();
      return in.ok() && visitor.on_lock(lock);
    }
    case kTraceItem: {
      std::string lock = in.text();
      BreakTrace trace{in.token(), nullptr};
      trace.by = in.owner();
      return in.ok() && visitor.on_trace(std::move(lock), std::move(trace));
    }
    case kKeptItem: {
      std::string key = in.text();
      KeptText kept;
      kept.version = in.number();
      kept.text = in.text();
      return in.ok() && visitor.on_kept(std::move(key), std::move(kept));
    }
    case kClosingItem: return in.ok() && visitor.on_closing();
    case kEndItem: {
      const Instant at = in.instant();
      return in.ok() && in.empty() && visitor.on_end(at);
    }
    default: break;
  }
  if (item > static_cast<std::uint8_t>(EffectKind::kForgotten)) return false;
  take_effect(in, static_cast<EffectKind>(item), scratch.effect);
  return in.ok() && visitor.on_effect(scratch.effect);
}

Error damaged(const char* what) {
  return {Errc::kCorruptState, std::string("a journal record is damaged: ") + what};
}

bool begins_as_record(std::string_view bytes) {
  return bytes.size() >= kMagic.size() + 2 + kChecksumSize && bytes.starts_with(kMagic);
}

std::string_view body_of(std::string_view record) {
  return record.substr(0, record.size() - kChecksumSize);
}

std::uint64_t checksum_of(std::string_view record) {
  return Input(record.substr(record.size() - kChecksumSize)).fixed();
}

}  // namespace

RecordWriter::RecordWriter(const RecordHead& head) {
  bytes_ = kMagic;
  Output out(bytes_);
  out.byte(kVersion);
  out.byte(static_cast<std::uint8_t>(head.kind));
  out.number(head.number);
  out.number(head.index);
  out.end();
}

void RecordWriter::add_effect(const Effect& effect) {
  const RecordFields fields = fields_of(effect.kind);
  ++items_;
  Output out(bytes_);
  out.byte(static_cast<std::uint8_t>(effect.kind));
  out.text(effect.name);
  out.id(effect.id);
  if (fields.order) out.number(effect.order);
  if (fields.whole) {
    out.byte(static_cast<std::uint8_t>(effect.mode.kind));
    out.number(effect.mode.permits);
    out.number(effect.mode.capacity);
    out.id(effect.upgrade_of);
    out.byte(effect.system ? 1 : 0);
    out.span(effect.ttl.count());
    out.span(effect.waiter_ttl.count());
  }
  if (fields.lease) {
    out.instant(effect.lease_end);
    out.number(effect.seq);
    out.span(effect.lease.count());
  }
  if (fields.token) out.token(effect.token);
  if (fields.owner) {
    const std::string_view wake = effect.owner ? std::string_view(effect.owner->wake) : "";
    rows::encode_owner(effect.owner, wake, owner_);
    out.text(owner_);
  }
  if (fields.until) out.instant(effect.lease_end);
  if (fields.capacity) out.number(effect.mode.capacity);
  if (fields.value) out.text(effect.value);
  out.end();
}

void RecordWriter::add_floor(machine::Token floor) {
  ++items_;
  Output out(bytes_);
  out.byte(kFloorItem);
  out.token(floor);
  out.end();
}

void RecordWriter::add_mark(std::string_view client, std::string_view lock, std::uint64_t issue) {
  ++items_;
  Output out(bytes_);
  out.byte(kMarkItem);
  out.text(client);
  out.text(lock);
  out.number(issue);
  out.end();
}

void RecordWriter::add_client_floor(std::string_view client, std::uint64_t issue) {
  ++items_;
  Output out(bytes_);
  out.byte(kClientFloorItem);
  out.text(client);
  out.number(issue);
  out.end();
}

void RecordWriter::add_lock(const LockHead& lock) {
  ++items_;
  Output out(bytes_);
  out.byte(kLockItem);
  out.text(lock.name);
  out.byte(static_cast<std::uint8_t>(lock.kind));
  out.number(lock.capacity);
  out.token(lock.last_token);
  out.number(lock.next_order);
  out.end();
}

void RecordWriter::add_trace(std::string_view lock, const BreakTrace& trace) {
  ++items_;
  Output out(bytes_);
  out.byte(kTraceItem);
  out.text(lock);
  out.token(trace.token);
  rows::encode_owner(trace.by, std::string_view(), owner_);
  out.text(owner_);
  out.end();
}

void RecordWriter::add_kept(std::string_view key, const KeptText& text) {
  ++items_;
  bytes_[kMagic.size()] = static_cast<char>(kVersionWithKept);
  Output out(bytes_);
  out.byte(kKeptItem);
  out.text(key);
  out.number(text.version);
  out.text(text.text);
  out.end();
}

void RecordWriter::add_closing() {
  ++items_;
  bytes_.push_back(static_cast<char>(kClosingItem));
}

std::string RecordWriter::finish(Instant at) {
  std::string record = finish_unsummed(at);
  add_checksum(record);
  return record;
}

std::string RecordWriter::finish_unsummed(Instant at) {
  Output out(bytes_);
  out.byte(kEndItem);
  out.instant(at);
  out.end();
  return std::move(bytes_);
}

void add_checksum(std::string& record) {
  Output out(record);
  out.fixed(base::fnv1a(record));
  out.end();
}

Result<RecordHead> read_record(std::string_view bytes, RecordVisitor& visitor, Checksum checksum) {
  if (!begins_as_record(bytes)) return damaged("it does not begin as one");
  const std::string_view body = body_of(bytes);
  if (checksum == Checksum::kUnseen && checksum_of(bytes) != base::fnv1a(body)) {
    return damaged("its checksum differs");
  }
  Input in(body.substr(kMagic.size()));
  const std::uint8_t version = in.byte();
  if (version != kVersion && version != kVersionWithKept) {
    return Error(Errc::kVersionMismatch, "a journal record has format " + std::to_string(version) +
                                             ", which this version does not know; upgrade");
  }
  RecordHead head;
  const std::uint8_t kind = in.byte();
  if (kind != static_cast<std::uint8_t>(RecordKind::kBatch) &&
      kind != static_cast<std::uint8_t>(RecordKind::kChunk)) {
    return damaged("its kind is unknown");
  }
  head.kind = static_cast<RecordKind>(kind);
  head.number = in.number();
  head.index = in.small_number();
  visitor.on_head(head);
  Scratch scratch;
  for (;;) {
    const std::uint8_t item = in.byte();
    if (!in.ok()) return damaged("it has no end");
    if (!read_item(in, item, visitor, scratch)) return damaged("an item makes no sense");
    if (item == kEndItem) return head;
  }
}

std::optional<std::uint64_t> check_chunk(std::string_view bytes, std::uint64_t sum_before) {
  if (!begins_as_record(bytes)) return std::nullopt;
  std::uint64_t own = base::kFnvStart;
  std::uint64_t all = sum_before;
  base::fnv1a(body_of(bytes), own, all);
  if (own != checksum_of(bytes)) return std::nullopt;
  return base::fnv1a(bytes.substr(body_of(bytes).size()), all);
}

Result<void> read_record_at(const RecordHead& place, std::string_view bytes, RecordVisitor& visitor,
                            Checksum checksum) {
  const auto head = read_record(bytes, visitor, checksum);
  if (head && *head == place) return {};
  std::string where = place.kind == RecordKind::kChunk ? "snapshot " : "batch ";
  where += std::to_string(place.number);
  if (place.kind == RecordKind::kChunk) where += ", chunk " + std::to_string(place.index);
  if (!head) return Error(head.error().code(), where + ": " + head.error().message());
  return Error(Errc::kCorruptState, where + ": a record of another place lies there");
}

}  // namespace holdfast::server
