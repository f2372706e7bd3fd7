#include "src/stores/sqlite/fork_gate.h"

#include <pthread.h>

#include <cstdint>
#include <map>

#include "src/base/fork_guard.h"
#include "src/base/local_mutex.h"
#include "src/stores/sqlite/database.h"

namespace holdfast::stores::sqlite {
namespace {

// Never destroyed: threads may be inside while the process ends.
struct Gate {
  // Readers go first, which is what lets them nest.
  pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
  base::LocalMutex mutex;
  std::map<Database*, std::uint64_t> open HOLDFAST_GUARDED_BY(mutex);  // The process that opened.
};

Gate& gate() {
  static Gate* const made = [] {
    ::pthread_atfork([] { ::pthread_rwlock_wrlock(&gate().lock); },
                     [] { ::pthread_rwlock_unlock(&gate().lock); },
                     // The child's thread has another id than the one that locked.
                     [] { ::pthread_rwlock_init(&gate().lock, nullptr); });
    return new Gate;
  }();
  return *made;
}

}  // namespace

InsideSqlite::InsideSqlite() { ::pthread_rwlock_rdlock(&gate().lock); }

InsideSqlite::~InsideSqlite() { ::pthread_rwlock_unlock(&gate().lock); }

void remember_open(Database* database) {
  const base::LocalLock lock(gate().mutex);
  gate().open[database] = base::process_generation();
}

void forget_open(Database* database) {
  const base::LocalLock lock(gate().mutex);
  gate().open.erase(database);
}

void forget_inherited() {
  const base::LocalLock lock(gate().mutex);
  std::erase_if(gate().open, [](const auto& entry) {
    if (entry.second == base::process_generation()) return false;
    entry.first->let_go_after_fork();
    return true;
  });
}

}  // namespace holdfast::stores::sqlite
