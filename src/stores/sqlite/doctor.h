// The store's guarantees, and whether the file at hand lets it keep them.
#pragma once

#include <string>
#include <vector>

#include "holdfast/guarantees.h"
#include "holdfast/result.h"
#include "src/stores/sqlite/database.h"

namespace holdfast::stores::sqlite {

Guarantees sqlite_guarantees();

// `wake_trouble`: why waiters are not woken; empty when they are.
Result<std::vector<Finding>> examine(Database& database, const std::string& wake_trouble);

}  // namespace holdfast::stores::sqlite
