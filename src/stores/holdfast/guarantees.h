// The guarantees of Holdfast's lock service, by its journal.
#pragma once

#include "holdfast/guarantees.h"

namespace holdfast::stores::holdfast {

// `durable`: the journal is on a disk, not in memory.
Guarantees guarantees(bool durable, bool shared);

}  // namespace holdfast::stores::holdfast
