// The tables of a store on a SQL server: are they there, may they be made, and are they ours?
//
// Thread-safety: any thread. Blocking: as long as `ask`.
#pragma once

#include <cstdint>

#include "holdfast/result.h"
#include "holdfast/stores.h"
#include "src/sql/dialect.h"

namespace holdfast::sql {

enum class Making : std::uint8_t {
  kForbidden,
  kFirst,    // All of them, where the store was never made.
  kMissing,  // Also one that somebody dropped since: what stood in it is lost.
};

// Makes tables as `making` says, and checks the format of those that are there. Tables of another
// format are left as they are.
// Errors: kCorruptState (none, and they may not be made), kVersionMismatch; kUnavailable and
// kPermissionDenied, as asked.
Result<StoreSchema> prepare_schema(const Dialect& dialect, const Dialect::Ask& ask, Making making);

}  // namespace holdfast::sql
