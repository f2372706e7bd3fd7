// How a factory answers a RecordsJob.
#pragma once

#include <memory>
#include <utility>

#include "holdfast/result.h"
#include "src/port/records.h"
#include "src/port/registry.h"
#include "src/port/store.h"

namespace holdfast::port {

inline Result<std::unique_ptr<Store>> answer(RecordsJob& job,
                                             Result<std::unique_ptr<Records>> made) {
  if (!made) return made.error();
  job.made = *std::move(made);
  return std::unique_ptr<Store>();
}

}  // namespace holdfast::port
