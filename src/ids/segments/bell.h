// Wakes one thread.
#pragma once

#include <semaphore.h>
#include <time.h>

#include <cerrno>
#include <chrono>

namespace holdfast::ids {

// Guarantee: ring() takes no lock, makes one system call at most, and is never missed: a wait()
// that begins after it returns at once. Thread-safety: ring() from any thread, wait() from one.
class Bell {
 public:
  Bell() { ::sem_init(&semaphore_, 0, 0); }
  ~Bell() { ::sem_destroy(&semaphore_); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void ring() { ::sem_post(&semaphore_); }
  // Until somebody has rung, or for so long; zero: for ever. All rings so far count as one.
  void wait(std::chrono::milliseconds at_most) {
    timespec until{};
    ::clock_gettime(CLOCK_MONOTONIC, &until);
    const auto ns = until.tv_nsec + (at_most.count() % 1'000) * 1'000'000;
    until.tv_sec += at_most.count() / 1'000 + ns / 1'000'000'000;
    until.tv_nsec = ns % 1'000'000'000;
    const bool limited = at_most > std::chrono::milliseconds::zero();
    while ((limited ? ::sem_clockwait(&semaphore_, CLOCK_MONOTONIC, &until)
                    : ::sem_wait(&semaphore_)) != 0 &&
           errno == EINTR) {
    }
    while (::sem_trywait(&semaphore_) == 0) {
    }
  }

 private:
  sem_t semaphore_{};
};

}  // namespace holdfast::ids
