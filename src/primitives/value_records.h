// The documents of a latch, an election and a once-guard (a barrier: barrier_record.h).
// Pure: nothing here asks a store.
//
// Guarantee: text that is not such a record is refused, never misread.
// Thread-safety: plain data. Errors: as document.h.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "holdfast/election.h"
#include "holdfast/result.h"
#include "holdfast/token.h"

namespace holdfast::primitives::latching {

struct Count {
  std::uint64_t initial = 0;
  std::uint64_t left = 0;
};

// `initial`: what it begins with where nobody has counted yet.
Result<Count> read_count(const std::string& text, const std::string& name, std::uint64_t initial);
std::string write_count(const Count& count);

}  // namespace holdfast::primitives::latching

namespace holdfast::primitives::electing {

// The latest proclamations, the newest at the end; `last` is its number.
struct Record {
  std::uint64_t last = 0;
  std::deque<LeaderInfo> changes;
};

Result<Record> read_record(const std::string& text, const std::string& name);
// The text with one more change, and without those for which there is no room any more.
std::string with(Record record, LeaderInfo change);

}  // namespace holdfast::primitives::electing

namespace holdfast::primitives::once_only {

// The outcome stored by the holder of that token. nullopt: it stored none, or somebody else did.
Result<std::optional<std::string>> read_outcome(const std::string& text, const std::string& name,
                                                const Token& holder);
std::string write_outcome(const Token& holder, const std::string& outcome);

}  // namespace holdfast::primitives::once_only
