// A table that many programs use as their lock, by the articles about it:
// distributed_lock(lock_name UNIQUE, lock_value, expire_time in ms, create_time).
//
// A take is one packet of statements, each with its condition: an UPDATE of an expired row, an
// INSERT of a missing one, and a SELECT that tells whose the row is now. The value is the
// acquisition's id, so a delete by owner is exact. expire_time is by the server's clock.
//
// Thread-safety, ownership: as recipes::Backend.
#pragma once

#include <memory>

#include "src/port/store.h"
#include "src/recipes/backend.h"
#include "src/stores/mysql/recipes.h"

namespace holdfast::stores::mysql {

std::shared_ptr<recipes::Backend> make_row_backend(const MysqlAddress& address,
                                                   const RecipeOptions& options, port::Loop& loop);

}  // namespace holdfast::stores::mysql
