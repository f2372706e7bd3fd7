// Reads and writes a contender's key and details, and the record beside a lock.
//
// The key never changes and is enough to decide with, but for a ticket that was weakened in place:
//
//   <id: 32 hex digits>-x            exclusive
//   <id>-s                           shared
//   <id>-p<n>.<N>                    n of N permits
//   <id>-u<id of the shared ticket>  the upgrade of that
//   <id>-r<n>.<N>                    nobody's: N shrinks by n when it is admitted
//
// Details and record are text, for people with the store's own shell: "hf1" and fields
// `name=value`, percent-encoded, separated by spaces. Fields that are not known are passed over; a
// later format ("hf2") is refused by name.
//
// Thread-safety: pure functions. Errors: kCorruptState, kVersionMismatch; what others wrote never
// aborts, and lengths are bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/result.h"
#include "src/machine/types.h"

namespace holdfast::contend {

enum class Shape : std::uint8_t { kExclusive, kShared, kPermits, kUpgrade, kShrink };

struct Key {
  machine::AcquisitionId id{};  // Zero: a foreign client's contender (?recipe=).
  Shape shape = Shape::kExclusive;
  std::uint32_t permits = 1;   // kPermits, kShrink.
  std::uint32_t capacity = 1;  // The same: N as the client knew it.
  machine::AcquisitionId upgrade_of{};

  friend bool operator==(const Key&, const Key&) = default;
};

Key key_for(const machine::AcquisitionId& id, const machine::Mode& mode,
            const machine::AcquisitionId& upgrade_of);
machine::Mode mode_of(const Key& key);

std::string to_text(const Key& key);
std::optional<Key> parse_key(std::string_view text);  // nullopt: not a contender's.

struct Details {
  bool weakened = false;               // An exclusive ticket that is shared by now.
  bool marked = false;                 // The number of this write is the token.
  bool attempt = false;                // Its owner would not wait: it holds, or is about to leave.
  std::optional<std::uint64_t> token;  // Told: what was written after the grant.
  machine::Duration lease{};           // The length of the session, as its client knows it.
  std::string session{};               // Backend::session_tag() of its client.
  machine::OwnerPtr owner{};
  // Set: why its text cannot be read. Its key tells where it stands and in which
  // mode; nothing else is known: not that it was weakened, is marked or a try, nor its token.
  std::shared_ptr<const Error> unreadable{};
};

std::string to_text(const Details& details);
Result<Details> parse_details(std::string_view text);

// The same of a contender in that key of the store's: what cannot be read is such, and says why,
// with the key and what to do.
Details read_details(std::string_view text, std::string_view key);

// The trace of the last break.
struct Trace {
  std::uint64_t token = 0;
  machine::AcquisitionId id{};
  machine::OwnerPtr by{};
};

struct Record {
  machine::AcquisitionId upgrade{};  // It holds, or has held: void once it is not in the queue.
  std::optional<std::uint32_t> capacity;  // N, while the head was created before this write.
  std::optional<Trace> broken;
};

std::string to_text(const Record& record);
Result<Record> parse_record(std::string_view text);  // Empty text: an empty record.

// The same of what a lock has in that key of the store's: an error names the key, and what to do.
Result<Record> read_record(std::string_view text, std::string_view key);

}  // namespace holdfast::contend
