// The records of ids in a table beside those of the locks, for any dialect.
//
// Each call is one statement, which is a transaction of its own, over one connection. Versions
// count from 1.
//
// Guarantee, thread-safety, errors: as port::Records. A statement that may still run after a lost
// answer names its version, so it takes effect before the caller's next try or never.
// Blocking: until `by`, which includes connecting.
#pragma once

#include <memory>
#include <string>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/port/records.h"
#include "src/sql/dialect.h"
#include "src/sql/link.h"

namespace holdfast::sql {

// Makes missing tables, unless `may_create` is false.
// Errors: kUnavailable, kPermissionDenied, kCorruptState (no table), kVersionMismatch.
Result<std::unique_ptr<port::Records>> open_records(std::unique_ptr<Dialect> dialect,
                                                    Link::Settings link, bool may_create,
                                                    base::BootInstant open_by);

// The error where the URL names a recipe, which has no tables of ours.
inline Error recipe_keeps_no_records(const std::string& store) {
  return {Errc::kUnsupported, "the " + store +
                                  " store keeps records in Holdfast's own tables: leave recipe= "
                                  "out of the URL"};
}

}  // namespace holdfast::sql
