// The document of a barrier: who takes part, who has arrived, and the rules by which that changes.
// Pure: nothing here asks a store.
//
// Guarantee: text that is not such a record is refused, never misread. All changes keep
// members + left <= parties.
// Thread-safety: plain data. Errors: as document.h; those of the rules are named there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/barrier.h"
#include "holdfast/result.h"
#include "holdfast/token.h"

namespace holdfast::primitives::barring {

// So many members fit into the 4 KiB of a value, whatever their tokens.
inline constexpr std::uint32_t kMostParties = 100;

enum class Step : std::uint8_t {
  kThere,    // Has not arrived.
  kArrived,  // And waits.
  kPassed,   // The generation in which it arrived last is complete.
  kBroken,   // Its last generation will never be complete.
};

struct Member {
  Token token;  // Its seat's.
  Step step = Step::kThere;

  friend bool operator==(const Member&, const Member&) = default;
};

struct Record {
  std::uint32_t parties = 0;  // Zero: nobody has ever joined.
  BarrierPolicy policy{};
  std::uint64_t generation = 0;
  bool broken = false;
  std::uint32_t left = 0;              // Places on which nobody is awaited any more.
  std::uint32_t arrived_and_left = 0;  // In this generation.
  std::vector<Member> members;

  std::uint32_t awaited() const { return parties - left; }
  std::uint32_t waiting() const;  // Members that have arrived.
  Member* find(const Token& seat);
  const Member* find(const Token& seat) const;

  friend bool operator==(const Record&, const Record&) = default;
};

// Empty text: a record without parties.
Result<Record> read_record(std::string_view text, const std::string& name);
std::string write_record(const Record& record);

// --- The rules. Each leaves a record that is settled: opened if all are there.

// Members without a seat among `seats` are gone. false: there are none.
bool drop_gone(Record& record, const std::vector<Token>& seats);

// kInvalidArgument: in use with other parties or another policy.
Result<void> check_use(const Record& record, std::uint32_t parties, BarrierPolicy policy,
                       const std::string& name);
// Fails like check_use(), and if there would be more members than parties.
Result<void> enter(Record& record, const Token& seat, std::uint32_t parties, BarrierPolicy policy,
                   const std::string& name);
// kLost: no member; kBroken.
Result<void> arrive(Record& record, const Token& seat, const std::string& name);
Result<void> leave(Record& record, const Token& seat, const std::string& name);
void withdraw(Record& record, const Token& seat);
void reopen(Record& record);

Error lost_error(const std::string& name);
Error broken_error(const std::string& name);

}  // namespace holdfast::primitives::barring
