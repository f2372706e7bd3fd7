#include "src/stores/memcached/document.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/rows/owner_codec.h"

namespace holdfast::stores::memcached {
namespace {

using machine::AcquisitionId;
using machine::Duration;
using machine::LockImage;
using machine::ModeKind;
using machine::OwnerPtr;
using machine::TicketImage;

constexpr std::string_view kMark = "holdfast ";
constexpr char kFormat = '1';
constexpr std::uint64_t kLongestLease = std::uint64_t{1} << 62;  // Microseconds.

// Flags of a ticket, and of a document.
constexpr std::uint64_t kHeld = 1, kSystem = 2, kUpgrade = 4;
constexpr std::uint64_t kKeep = 1, kBroken = 2;

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void number(std::uint64_t value) {
    while (value >= 0x80) {
      out_.push_back(static_cast<char>(value | 0x80));
      value >>= 7;
    }
    out_.push_back(static_cast<char>(value));
  }
  void text(std::string_view text) {
    number(text.size());
    out_.append(text);
  }
  void word(std::uint64_t value) {
    for (int shift = 56; shift >= 0; shift -= 8) out_.push_back(static_cast<char>(value >> shift));
  }
  void id(AcquisitionId id) {
    word(id.high);
    word(id.low);
  }
  void length(Duration length) {
    const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(length.count(), 0));
    number(std::min(count, kLongestLease));
  }

 private:
  std::string& out_;
};

// After a failure everything reads as zero.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  bool good() const { return good_; }
  bool at_end() const { return good_ && left_.empty(); }

  std::uint64_t number(std::uint64_t most = UINT64_MAX) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (left_.empty()) return fail();
      const auto byte = static_cast<unsigned char>(left_.front());
      left_.remove_prefix(1);
      const std::uint64_t bits = byte & 0x7fU;
      if (shift == 63 && bits > 1) return fail();
      value |= bits << shift;
      if ((byte & 0x80U) == 0) return value <= most ? value : fail();
    }
    return fail();
  }
  // How many follow, of at least so many bytes each.
  std::size_t count(std::size_t each) { return number(left_.size() / each); }
  std::string_view text() {
    const std::size_t size = number(left_.size());
    if (size > left_.size()) return fail(), std::string_view();
    const std::string_view text = left_.substr(0, size);
    left_.remove_prefix(size);
    return text;
  }
  std::uint64_t word() {
    if (left_.size() < 8) return fail();
    std::uint64_t value = 0;
    for (const char c : left_.substr(0, 8)) value = value << 8 | static_cast<unsigned char>(c);
    left_.remove_prefix(8);
    return value;
  }
  AcquisitionId id() {
    const std::uint64_t high = word();
    return {high, word()};
  }
  Duration length() { return Duration(static_cast<std::int64_t>(number(kLongestLease))); }
  std::uint32_t small() { return static_cast<std::uint32_t>(number(UINT32_MAX)); }
  std::uint64_t fail() {
    good_ = false;
    left_ = {};
    return 0;
  }

 private:
  std::string_view left_;
  bool good_ = true;
};

// The tickets of one client have one owner: each is written once.
class Owners {
 public:
  std::uint64_t place_of(const OwnerPtr& owner) {
    if (owner == nullptr) return 0;
    if (owner.get() == last_) return last_place_;
    last_ = owner.get();
    return last_place_ = look_up(owner);
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::uint64_t look_up(const OwnerPtr& owner) {
    if (owner.get() == first_) return 1;
    if (texts_.empty()) {
      first_ = owner.get();
    } else {
      const auto [found, fresh] = places_.emplace(owner.get(), texts_.size() + 1);
      if (!fresh) return found->second;
    }
    rows::encode_owner(owner, {}, texts_.emplace_back());
    return texts_.size();
  }

  const machine::OwnerInfo* first_ = nullptr;  // Mostly there is one, which needs no table.
  std::unordered_map<const machine::OwnerInfo*, std::uint64_t> places_;  // The others'.
  std::vector<std::string> texts_;
  const machine::OwnerInfo* last_ = nullptr;
  std::uint64_t last_place_ = 0;
};

void write_ticket(Writer& out, const TicketImage& ticket, std::uint64_t owner) {
  out.id(ticket.id);
  out.number(ticket.order);
  out.number(static_cast<std::uint64_t>(ticket.mode.kind));
  out.number(ticket.mode.permits);
  out.number((ticket.held ? kHeld : 0) + (ticket.system ? kSystem : 0) +
             (ticket.upgrade_of ? kUpgrade : 0));
  if (ticket.upgrade_of) out.id(ticket.upgrade_of);
  if (ticket.held) {
    out.number(ticket.token.epoch);
    out.number(ticket.token.counter);
  }
  out.number(ticket.seq);
  out.length(ticket.lease);
  out.length(ticket.ttl);
  out.length(ticket.waiter_ttl);
  out.number(owner);
}

TicketImage read_ticket(Reader& in, const LockImage& lock, const std::vector<OwnerPtr>& owners) {
  TicketImage ticket;
  ticket.id = in.id();
  ticket.order = in.number();
  ticket.mode.kind = static_cast<ModeKind>(in.number(2));
  ticket.mode.permits = in.small();
  ticket.mode.capacity = lock.capacity;
  const std::uint64_t flags = in.number(kHeld | kSystem | kUpgrade);
  ticket.held = (flags & kHeld) != 0;
  ticket.system = (flags & kSystem) != 0;
  if ((flags & kUpgrade) != 0) ticket.upgrade_of = in.id();
  if (ticket.held) {
    ticket.token.epoch = in.small();
    ticket.token.counter = in.number();
  }
  ticket.seq = in.number();
  ticket.lease = in.length();
  ticket.ttl = in.length();
  ticket.waiter_ttl = in.length();
  const std::uint64_t owner = in.number(owners.size());
  if (owner > 0) ticket.owner = owners[owner - 1];
  return ticket;
}

Error corrupt() {
  return {Errc::kCorruptState, "the item is not a document of Holdfast's: was it changed by hand?"};
}

}  // namespace

std::string encode(const Document& document) {
  std::string bytes;
  encode(document, bytes);
  return bytes;
}

void encode(const Document& document, std::string& bytes) {
  const LockImage& lock = document.image;
  Owners owners;
  for (const TicketImage& ticket : lock.tickets) owners.place_of(ticket.owner);

  bytes.clear();
  bytes.reserve(384 + lock.name.size() + lock.value.size() + 64 * lock.tickets.size());
  bytes.append(kMark).push_back(kFormat);
  Writer out(bytes);
  out.text(lock.name);
  out.number((document.keep ? kKeep : 0) + (document.broken ? kBroken : 0));
  out.number(static_cast<std::uint64_t>(lock.kind));
  out.number(lock.capacity);
  out.number(lock.last_token.epoch);
  out.number(lock.last_token.counter);
  out.number(lock.next_order);
  out.text(lock.value);
  if (document.broken) {
    std::string by;
    rows::encode_owner(document.broken->by, {}, by);
    out.number(document.broken->token.epoch);
    out.number(document.broken->token.counter);
    out.text(by);
  }
  out.number(owners.texts().size());
  for (const std::string& owner : owners.texts()) out.text(owner);
  out.number(lock.tickets.size());
  for (const TicketImage& ticket : lock.tickets) {
    write_ticket(out, ticket, owners.place_of(ticket.owner));
  }
}

Result<Document> decode(std::string_view bytes) {
  if (!bytes.starts_with(kMark) || bytes.size() <= kMark.size()) return corrupt();
  if (bytes[kMark.size()] > kFormat && bytes[kMark.size()] <= '9') {
    return Error(Errc::kVersionMismatch,
                 "the lock was written by a newer version of Holdfast: upgrade this one");
  }
  if (bytes[kMark.size()] != kFormat) return corrupt();
  Reader in(bytes.substr(kMark.size() + 1));
  Document document;
  LockImage& lock = document.image;
  lock.name = in.text();
  const std::uint64_t flags = in.number(kKeep | kBroken);
  document.keep = (flags & kKeep) != 0;
  lock.kind = static_cast<ModeKind>(in.number(2));
  lock.capacity = in.small();
  lock.last_token.epoch = in.small();
  lock.last_token.counter = in.number();
  lock.next_order = in.number();
  lock.value = in.text();
  if ((flags & kBroken) != 0) {
    Document::Broken& broken = document.broken.emplace(Document::Broken{{}, {}});
    broken.token.epoch = in.small();
    broken.token.counter = in.number();
    const auto by = rows::decode_owner(in.text());
    if (!by) return corrupt();
    broken.by = *by;
  }
  std::vector<OwnerPtr> owners(in.count(1));
  for (OwnerPtr& owner : owners) {
    auto read = rows::decode_owner(in.text());
    if (!read) return corrupt();
    owner = *std::move(read);
  }
  constexpr std::size_t kLeastTicket = 24;
  lock.tickets.resize(in.count(kLeastTicket));
  for (TicketImage& ticket : lock.tickets) {
    ticket = read_ticket(in, lock, owners);
    if (!in.good()) return corrupt();
  }
  if (!in.at_end()) return corrupt();
  return document;
}

}  // namespace holdfast::stores::memcached
