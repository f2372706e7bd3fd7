// Ids with a time that the lock service gives by itself, to programs without a client of Holdfast.
//
//   ids/NAME                      the head of leased workers (slot.h), with `served`
//   ids/NAME/INCARNATION/service  how far the service has come: a time, and how many of its
//                                 sequence numbers are given
//
// The service has the worker number after the last one that clients lease. It changes the record in
// the step that gives the ids, and answers after the commit. So no clock and no restart can repeat
// one, and nothing is reserved ahead.
//
// Thread-safety: pure functions of their object.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/ids/layout.h"
#include "holdfast/ids/snowflake.h"
#include "holdfast/result.h"
#include "src/ids/segments/names.h"

namespace holdfast::ids {

inline constexpr std::string_view kWorkersKind = "workers";
// One answer's.
inline constexpr std::uint64_t kMostServedIds = 1'000;

inline std::string service_key(const std::string& name, const std::string& incarnation) {
  return head_key(name) + "/" + incarnation + "/service";
}

struct ServedHead {
  std::string name{};
  std::string incarnation{};
  Layout layout;
  ClockPolicy policy{};
  std::uint64_t worker = 0;  // The service's own.

  // Whether the text is a head of leased workers. One that is damaged is none.
  static bool is_one(const std::string& text);
  // Errors: kCorruptState, kVersionMismatch, kInvalidArgument: of another kind. kUnsupported: only
  // clients of Holdfast have these ids.
  static Result<ServedHead> parse(const std::string& name, const std::string& text);
};

struct ServedState {
  std::string incarnation{};
  std::int64_t time = -1;  // In units of the layout. No id of a later one is given.
  std::uint64_t used = 0;  // The sequence numbers of that time below this one are given.

  std::string text() const;
  // Errors: kCorruptState, kVersionMismatch.
  static Result<ServedState> parse(const std::string& text, const std::string& where);

  // The next ids, which are later than all before. A clock that was set back changes nothing, as
  // long as the ids stay so near to it as the policy allows: forward_at_most with logical time, and
  // else what may be borrowed.
  // At most kMostServedIds of them.
  // Errors, and then nothing is changed: kUnavailable: the clock stands further back.
  // kUnsupported: the layout's lifetime is over.
  Result<std::vector<std::uint64_t>> give(const ServedHead& head, std::uint64_t count,
                                          std::chrono::nanoseconds wall);
};

}  // namespace holdfast::ids
