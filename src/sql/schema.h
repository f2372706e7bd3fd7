// The tables of a store on a SQL server: are they there, may they be made, and are they ours?
//
// Thread-safety: any thread. Blocking: as long as `ask`.
#pragma once

#include "holdfast/result.h"
#include "holdfast/stores.h"
#include "src/sql/dialect.h"

namespace holdfast::sql {

// Makes missing tables where `may_create`, and checks the format of those that are there.
// Errors: kCorruptState (none, and they may not be made), kVersionMismatch; kUnavailable and
// kPermissionDenied, as asked.
Result<StoreSchema> prepare_schema(const Dialect& dialect, const Dialect::Ask& ask,
                                   bool may_create);

}  // namespace holdfast::sql
