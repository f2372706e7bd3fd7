// An id, who makes it, and what may be relied on.
//
// Every generator and every counter of Holdfast gives its ids by the same call, next(), and states
// its guarantees as data, so that a program can refuse what is too weak for it.
#pragma once

#include <compare>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/export.h"
#include "holdfast/result.h"

namespace holdfast::ids {

enum class IdForm : std::uint8_t {
  kNumber,  // 63 bits: fits BIGINT. Its text is decimal.
  kUuid,    // 128 bits. Its text is 8-4-4-4-12 hexadecimal digits.
  kUlid,    // 128 bits. Its text is 26 characters of Crockford's base 32.
};

// Ids of one form compare as their texts do, where those have one length.
struct Id {
  std::uint64_t high = 0;  // 0 in a number.
  std::uint64_t low = 0;
  IdForm form = IdForm::kNumber;

  static constexpr Id of(std::uint64_t number) { return {0, number, IdForm::kNumber}; }
  // The number. A UUID or ULID gives its lower half only.
  constexpr std::uint64_t number() const { return low; }

  // In JSON this text is the value: a number above 2^53 loses digits in JavaScript.
  HOLDFAST_EXPORT std::string to_string() const;
  // Reads what to_string() writes; UUIDs and ULIDs in either case. nullopt: no id.
  HOLDFAST_EXPORT static std::optional<Id> parse(std::string_view text);

  friend constexpr auto operator<=>(const Id&, const Id&) = default;
  friend HOLDFAST_EXPORT std::ostream& operator<<(std::ostream& out, const Id& id);
};

// In which order the ids of one object come.
enum class IdOrder : std::uint8_t {
  kNone,       // No order.
  kPerThread,  // Each thread's ids grow.
  kObject,     // When one call returned before another one began, its id is less.
  kCounter,    // As kObject, over all objects and processes that use one counter.
};

// The reason that no two ids are the same.
enum class UniqueBy : std::uint8_t {
  kChance,        // Random bits.
  kConfiguration,  // Somebody gave every process a worker number of its own.
  kLease,         // A lease on the worker number, and a durable bound of its time.
  kCounter,       // A counter in a store, raised by one committed write.
};

struct IdGuarantees {
  UniqueBy unique_by = UniqueBy::kChance;
  IdOrder order = IdOrder::kNone;
  bool survives_restart = false;    // A new object never repeats an earlier one's ids.
  bool survives_clock_back = false;  // A wall clock that is set back repeats nothing.
  bool survives_pause = false;       // A process that stood still for long repeats nothing.
  bool survives_fork = false;        // Nor does a forked child.
  // An older copy of what keeps the ids apart (a file, a store, a configuration) that is put back,
  // or used a second time, repeats nothing. False: nobody, or not every process, can see it.
  bool survives_old_copy = false;
  // Why the store may lose a write that it has answered; then ids may repeat. Empty: it does not.
  std::string forgets{};
};

// Thread-safety: next() may be called from any thread, unless the type says otherwise.
class HOLDFAST_EXPORT IdSource {
 public:
  virtual ~IdSource() = default;

  // Guarantee: no id is given twice, as far as guarantees() says; an error gives none, and the next
  // call may succeed.
  // Errors: with each type.
  virtual Result<Id> next() = 0;
  virtual IdGuarantees guarantees() const = 0;
};

}  // namespace holdfast::ids
