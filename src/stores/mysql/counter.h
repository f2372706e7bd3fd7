// A counter of MySQL or MariaDB: the only row of a table with one column, as the server's manual
// has it for LAST_INSERT_ID(expr).
//
//   UPDATE orders SET id = LAST_INSERT_ID(id + 10); SELECT LAST_INSERT_ID(), ROW_COUNT()
//
// Both go as one packet, so on one connection. The count of changed rows tells a row that is gone,
// where LAST_INSERT_ID() would repeat the number of before.
//
// Guarantee, thread-safety, errors: as port::NativeCounter.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/port/native_counter.h"
#include "src/port/registry.h"
#include "src/stores/mysql/url.h"

namespace holdfast::stores::mysql {

// Answers `context.counter`. Errors: as NativeCounterJob.
Result<std::unique_ptr<port::Store>> make_counter(const MysqlAddress& address,
                                                  const port::StoreContext& context);

}  // namespace holdfast::stores::mysql
