// Reads and writes a contender's key and details, and the record beside a lock.
//
// The key never changes. It is enough for a decision, except after a downgrade in place:
//
//   <id: 32 hex digits>-x            exclusive
//   <id>-s                           shared
//   <id>-p<n>.<N>                    n of N permits
//   <id>-u<id of the shared ticket>  the upgrade of that
//   <id>-r<n>.<N>                    nobody's: N shrinks by n when it is admitted
//
// Details and record are text, so that people can read them in the store's own shell: "hf1" and
// fields `name=value`, percent-encoded, separated by spaces. Unknown fields are ignored; a later
// format ("hf2") is refused by its name.
//
// Thread-safety: pure functions. Errors: kCorruptState, kVersionMismatch. Foreign text never aborts
// the program, and lengths are limited.
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
  machine::AcquisitionId id{};  // Zero for another library's contender (?recipe=).
  Shape shape = Shape::kExclusive;
  std::uint32_t permits = 1;   // kPermits, kShrink.
  std::uint32_t capacity = 1;  // For the same: N as the client knew it.
  machine::AcquisitionId upgrade_of{};

  friend bool operator==(const Key&, const Key&) = default;
};

Key key_for(const machine::AcquisitionId& id, const machine::Mode& mode,
            const machine::AcquisitionId& upgrade_of);
machine::Mode mode_of(const Key& key);

std::string to_text(const Key& key);
std::optional<Key> parse_key(std::string_view text);  // nullopt if it is not a contender's.

// A contender that needs no client: it lives by a lease of its own, which its holder renews.
struct Kept {
  machine::AcquisitionId id{};  // Its acquisition, by which other clients find it.
  std::uint64_t seq = 0;        // The holder's request that was applied last...
  machine::Duration ttl{};      // ...and the lease that it was given.
  std::string lease{};          // The store's name for that, where it has one.
  std::uint64_t created = 0;    // The contender's creation, where the store forgets it.
};

struct Details {
  bool weakened = false;               // An exclusive ticket that is shared now.
  bool marked = false;                 // The number of this write is the token.
  bool attempt = false;                // A try: it holds, or is about to leave.
  std::optional<std::uint64_t> token;  // Set by a write after the grant.
  machine::Duration lease{};           // The length of the session, as its client knows it.
  std::string session{};               // Backend::session_tag() of its client.
  machine::OwnerPtr owner{};
  std::shared_ptr<const Kept> kept{};
  // Not written. The rest of the time of a kept contender that the store does not end by itself.
  // A waiter removes it then (Backend::drop).
  std::optional<machine::Duration> left{};
  bool over() const { return left && *left <= machine::Duration::zero(); }
  // If set, the text is unreadable for this reason. Then only the position and the mode are known,
  // from the key. Unknown are a downgrade, the marks, and the token.
  std::shared_ptr<const Error> unreadable{};
};

std::string to_text(const Details& details);
Result<Details> parse_details(std::string_view text);

// Reads the details of a contender at that key of the store. Unreadable details have an error with
// the key and what to do.
Details read_details(std::string_view text, std::string_view key);

// The trace of the last break.
struct Trace {
  std::uint64_t token = 0;
  machine::AcquisitionId id{};
  machine::OwnerPtr by{};
};

struct Record {
  machine::AcquisitionId upgrade{};       // It holds or has held. Void once not in the queue.
  std::optional<std::uint32_t> capacity;  // N, valid while the head was created before this write.
  std::optional<Trace> broken;
};

std::string to_text(const Record& record);
Result<Record> parse_record(std::string_view text);  // An empty text gives an empty record.

// Reads the record of a lock at that key of the store. An error names the key, and what to do.
Result<Record> read_record(std::string_view text, std::string_view key);

}  // namespace holdfast::contend
