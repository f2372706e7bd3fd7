// The records of ids in the file of the locks: the table `records`, made by the first create().
//
// Each change is one transaction with `synchronous = FULL`, so it is on the disk when it is
// answered. Older versions of Holdfast leave the table alone.
//
// Guarantee, thread-safety, errors: as port::Records. Once the disk failed to sync a change, this
// object only reads, because nobody knows which later changes the kernel would keep.
// Not guaranteed: anything in a file that was moved or replaced; the one at the path is opened.
// Blocking: for other processes' transactions until `by`, and for the disk.
#pragma once

#include <memory>
#include <string>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/port/records.h"

namespace holdfast::stores::sqlite {

// Opens the file, and makes it when missing. Errors: as of the store.
Result<std::unique_ptr<port::Records>> open_records(const std::string& path,
                                                    base::BootInstant open_by);

}  // namespace holdfast::stores::sqlite
