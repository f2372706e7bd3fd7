// The store on a MySQL 8 or MariaDB server (10.6 or later). docs/stores/mysql.md says how it works
// and what it promises; docs/design/0045-mysql-store.md why it is as it is.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/sql/sql_store.h"

namespace holdfast::stores {

// Connects, and creates the tables where they are not there. Errors: kInvalidArgument,
// kUnavailable, kPermissionDenied, kVersionMismatch.
Result<std::unique_ptr<port::Store>> make_mysql_store(port::StoreUrl url,
                                                      const port::StoreContext& context);

Result<std::unique_ptr<port::Store>> make_mysql_store_for_test(port::StoreUrl url,
                                                               const port::StoreContext& context,
                                                               sql::Tuning tuning);

}  // namespace holdfast::stores
