// While it lives the process gets no further file descriptor, except a few.
//
// Thread-safety: one at a time; it holds for all threads.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

namespace holdfast::support {

class NoDescriptors {
 public:
  explicit NoDescriptors(int spare = 0) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::dup(0);
    ::close(next);
    const rlimit none{static_cast<rlim_t>(next + spare), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace holdfast::support
