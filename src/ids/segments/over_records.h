// Segments over records that are open already: what Segments::open() does after it has opened the
// store of a URL.
#pragma once

#include <memory>
#include <string>

#include "holdfast/ids/segments.h"
#include "holdfast/result.h"
#include "src/port/records.h"

namespace holdfast::ids {

struct SegmentsOverRecords {
  // Errors: as Segments::open().
  static Result<std::unique_ptr<Segments>> open(std::unique_ptr<port::Records> records,
                                                const std::string& name,
                                                const SegmentsOptions& options);
};

}  // namespace holdfast::ids
