// The checker's findings, in a form for people and one for programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::lab {

// docs/design/0007-lab-checker.md defines each.
enum class Class : std::uint8_t {
  kMalformed,   // The history contradicts itself: an event is missing, or a recorder is broken.
  kV0,          // Within one incarnation of the store the grants are no legal fenced history.
  kV1,          // Two owners believed to hold beyond the mode.
  kV2,          // The resource accepted a stale token.
  kV3,          // A call invoked after the deadline said "held".
  kStuck,       // Nobody holds, somebody waits, nothing moves.
  kOrphaned,    // The lease of a holder that is gone did not end.
  kLostWakeUp,  // The lock was free, and the waiter that got it learned so late.
};
inline constexpr std::size_t kClasses = 8;

std::string_view name_of(Class kind);

struct Violation {
  Class kind = Class::kMalformed;
  std::string_view rule{};    // Which definition it breaks: a word for tests and tables.
  std::size_t first = 0;      // Indices into History::events: the two that show it. Both the
  std::size_t second = 0;     // same where one event shows it alone.
  std::int64_t begin_ns = 0;  // From when ...
  std::int64_t end_ns = 0;    // ... to when it was so; equal: no interval.
  std::string message{};
};

}  // namespace holdfast::lab
