// Threads of the library: named, deaf to signals (which belong to the program's own threads), and
// known as such.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <type_traits>
#include <utility>

namespace holdfast::base {

inline thread_local bool is_library_thread = false;

// Whether the caller runs on a thread of ours: then it must not wait for our threads to end.
inline bool on_library_thread() noexcept { return is_library_thread; }

// Blocks all signals of the calling thread while it lives.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

// Throws std::system_error where there is no thread to be had.
template <typename F>
std::thread start_thread(const char* name, F&& body) {
  const BlockedSignals blocked;  // A thread inherits the mask.
  std::thread thread([run = std::decay_t<F>(std::forward<F>(body))]() mutable {
    is_library_thread = true;
    run();
  });
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace holdfast::base
