// The examination of a PostgreSQL server for `holdfast doctor`.
#pragma once

#include "src/port/examination.h"
#include "src/stores/postgres/engine.h"

namespace holdfast::stores::postgres {

// `done` is called on the engine's thread. Errors: of a server that does not answer.
void examine(Engine& engine, base::BootInstant deadline, port::Done<port::Findings> done);

}  // namespace holdfast::stores::postgres
