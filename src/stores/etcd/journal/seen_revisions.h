// The newest revision that each journal in etcd was seen at, which outlives the journal's object. A
// revision that goes back shows that a snapshot of etcd was put back.
//
// Not guaranteed: that a process notices it that began later.
// Thread-safety: any thread. Memory: a key and a number for each journal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "src/base/local_mutex.h"

namespace holdfast::stores::etcd {

class SeenRevisions {
 public:
  static std::shared_ptr<SeenRevisions> of_process() {
    static const auto seen = std::make_shared<SeenRevisions>();
    return seen;
  }

  void saw(const std::string& journal, std::int64_t revision) {
    const base::LocalLock lock(mutex_);
    std::int64_t& newest = newest_[journal];
    newest = std::max(newest, revision);
  }

  // `written` is that of a new write. From then on it counts as the newest.
  bool went_back(const std::string& journal, std::int64_t written) {
    const base::LocalLock lock(mutex_);
    std::int64_t& newest = newest_[journal];
    const bool back = written <= newest;
    newest = written;
    return back;
  }

 private:
  base::LocalMutex mutex_;
  std::map<std::string, std::int64_t> newest_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::stores::etcd
