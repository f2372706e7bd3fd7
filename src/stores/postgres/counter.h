// A counter of PostgreSQL: a sequence, which other programs raise by nextval().
//
// nextval() alone is no committed write: the server logs 32 numbers ahead, so most calls log
// nothing and wait for no disk. Numbers that another session has logged, but not synced, come again
// after a crash. So each batch writes a small record to the log, and its commit syncs all before.
//
// Guarantee, thread-safety, errors: as port::NativeCounter.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/port/native_counter.h"
#include "src/port/registry.h"
#include "src/sql/link.h"
#include "src/stores/postgres/url.h"

namespace holdfast::stores::postgres {

// Answers `context.counter`. Errors: as NativeCounterJob.
Result<std::unique_ptr<port::Store>> make_counter(const PostgresAddress& address,
                                                  sql::Link::Settings link,
                                                  const port::StoreContext& context);

}  // namespace holdfast::stores::postgres
