// The store on a PostgreSQL server (13 or later). docs/stores/postgres.md says how it works and
// what it promises; docs/design/0032-sql-stores.md why it is as it is.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/sql/sql_store.h"

namespace holdfast::stores {

// Connects, and creates the tables where they are not there. Errors: kInvalidArgument,
// kUnavailable, kPermissionDenied, kVersionMismatch.
Result<std::unique_ptr<port::Store>> make_postgres_store(port::StoreUrl url,
                                                         const port::StoreContext& context);

Result<std::unique_ptr<port::Store>> make_postgres_store_for_test(port::StoreUrl url,
                                                                  const port::StoreContext& context,
                                                                  sql::Tuning tuning);

}  // namespace holdfast::stores
