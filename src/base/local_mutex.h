// A mutex of this process that clang's thread-safety analysis understands, and its condition.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define HOLDFAST_TSA(x) __attribute__((x))
#else
#define HOLDFAST_TSA(x)
#endif
#define HOLDFAST_CAPABILITY(x) HOLDFAST_TSA(capability(x))
#define HOLDFAST_SCOPED_CAPABILITY HOLDFAST_TSA(scoped_lockable)
#define HOLDFAST_GUARDED_BY(x) HOLDFAST_TSA(guarded_by(x))
#define HOLDFAST_REQUIRES(...) HOLDFAST_TSA(requires_capability(__VA_ARGS__))
#define HOLDFAST_EXCLUDES(...) HOLDFAST_TSA(locks_excluded(__VA_ARGS__))
#define HOLDFAST_ACQUIRE(...) HOLDFAST_TSA(acquire_capability(__VA_ARGS__))
#define HOLDFAST_TRY_ACQUIRE(...) HOLDFAST_TSA(try_acquire_capability(__VA_ARGS__))
#define HOLDFAST_RELEASE(...) HOLDFAST_TSA(release_capability(__VA_ARGS__))
#define HOLDFAST_NO_TSA HOLDFAST_TSA(no_thread_safety_analysis)

namespace holdfast::base {

class HOLDFAST_CAPABILITY("mutex") LocalMutex {
 public:
  // The guarded sections take a microsecond: less than going to sleep and waking up.
  void lock() HOLDFAST_ACQUIRE() {
    for (int spins = 0; spins < kSpins; ++spins) {
      if (mutex_.try_lock()) return;
      relax();
    }
    mutex_.lock();
  }
  bool try_lock() HOLDFAST_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() HOLDFAST_RELEASE() { mutex_.unlock(); }

 private:
  friend class LocalCondition;
  static constexpr int kSpins = 60;

  static void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
  }

  std::mutex mutex_;
};

class HOLDFAST_SCOPED_CAPABILITY LocalLock {
 public:
  explicit LocalLock(LocalMutex& mutex) HOLDFAST_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~LocalLock() HOLDFAST_RELEASE() { mutex_.unlock(); }
  LocalLock(const LocalLock&) = delete;
  LocalLock& operator=(const LocalLock&) = delete;

 private:
  LocalMutex& mutex_;
};

// Waits with the mutex held. Callers loop over their condition.
class LocalCondition {
 public:
  void wait(LocalMutex& mutex) HOLDFAST_REQUIRES(mutex) {
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    condition_.wait(held);
    held.release();
  }
  template <typename Rep, typename Period>
  void wait_for(LocalMutex& mutex, std::chrono::duration<Rep, Period> time)
      HOLDFAST_REQUIRES(mutex) {
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    condition_.wait_for(held, time);
    held.release();
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace holdfast::base
