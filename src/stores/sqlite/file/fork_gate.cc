#include "src/stores/sqlite/file/fork_gate.h"

#include <pthread.h>

#include <cstdint>
#include <map>
#include <utility>

#include "src/base/fork_guard.h"
#include "src/base/local_mutex.h"
#include "src/stores/sqlite/database.h"

namespace holdfast::stores::sqlite {
namespace {

// Never destroyed: threads may be inside while the process ends.
struct Gate {
  Gate() { make_lock(); }
  // A thread that forks goes before later ones: fork() would never end otherwise where several
  // threads are busy. Therefore a thread locks once, however deep it is inside.
  void make_lock() {
    pthread_rwlockattr_t kind;
    ::pthread_rwlockattr_init(&kind);
    ::pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    ::pthread_rwlock_init(&lock, &kind);
    ::pthread_rwlockattr_destroy(&kind);
  }

  pthread_rwlock_t lock;
  base::LocalMutex mutex;
  std::map<Database*, std::uint64_t> open HOLDFAST_GUARDED_BY(mutex);  // The process that opened.
};

Gate& gate() {
  static Gate* const made = [] {
    ::pthread_atfork([] { ::pthread_rwlock_wrlock(&gate().lock); },
                     [] { ::pthread_rwlock_unlock(&gate().lock); },
                     // The child's thread has another id than the one that locked.
                     [] { gate().make_lock(); });
    return new Gate;
  }();
  return *made;
}

thread_local int depth = 0;  // How often this thread is inside.

void enter() { ::pthread_rwlock_rdlock(&gate().lock); }
void leave() { ::pthread_rwlock_unlock(&gate().lock); }

}  // namespace

InsideSqlite::InsideSqlite() {
  if (depth++ == 0) enter();
}

InsideSqlite::~InsideSqlite() {
  if (--depth == 0) leave();
}

OutsideSqlite::OutsideSqlite() : depth_(std::exchange(depth, 0)) {
  if (depth_ > 0) leave();
}

OutsideSqlite::~OutsideSqlite() {
  if (depth_ > 0) enter();
  depth = depth_;
}

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
