// The records of ids in this process: `memory:NAME` has the same ones for everybody in it.
//
// Guarantee, thread-safety, errors: as port::Records. No call blocks.
// Not guaranteed: anything after the end of the process. Records of a name stay until then.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "src/base/local_mutex.h"
#include "src/port/records.h"

namespace holdfast::stores {

// The records of one name.
struct MemoryTable {
  base::LocalMutex mutex;
  std::map<std::string, port::Record> records HOLDFAST_GUARDED_BY(mutex);
};

// The table of that name in this process, which stays as long as it lives; a forked child has
// tables of its own.
std::shared_ptr<MemoryTable> find_or_make_memory_table(const std::string& name);

// An empty name makes records that nobody else can find.
std::unique_ptr<port::Records> make_memory_records(const std::string& name);

}  // namespace holdfast::stores
