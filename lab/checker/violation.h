// The checker's findings, for people and for programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::lab {

// docs/design/0007-lab-checker.md defines each class.
enum class Class : std::uint8_t {
  kMalformed,   // The history contradicts itself: an event is missing, or a recorder is broken.
  kV0,          // Within one incarnation of the store the grants are no legal fenced history.
  kV1,          // Two owners believed to hold beyond the mode.
  kV2,          // The resource accepted a stale token.
  kV3,          // A call invoked after the deadline said "held".
  kStuck,       // Nobody holds, but a waiter gets nothing.
  kOrphaned,    // The lease of a dead holder did not end.
  kLostWakeUp,  // The lock was free, but its next holder learned that late.
};
inline constexpr std::size_t kClasses = 8;

std::string_view name_of(Class kind);

struct Violation {
  Class kind = Class::kMalformed;
  std::string_view rule{};    // The broken definition, as a word for tests and tables.
  std::size_t first = 0;      // Indices into History::events: the two that show it. Both the
  std::size_t second = 0;     // same where one event shows it alone.
  std::int64_t begin_ns = 0;  // Its beginning.
  std::int64_t end_ns = 0;    // Its end; equal to the beginning if it has no duration.
  std::string message{};
};

}  // namespace holdfast::lab
