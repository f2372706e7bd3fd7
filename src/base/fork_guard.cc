#include "src/base/fork_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "src/base/random.h"

namespace holdfast::base {

WipedOnFork& make_wiped_on_fork() {
  const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED || ::madvise(page, size, MADV_WIPEONFORK) != 0) {
    std::fprintf(stderr,
                 "holdfast: cannot get memory that is wiped on fork: use Linux 4.14 or later\n");
    std::abort();
  }
  return *new (page) WipedOnFork(0);
}

namespace {
WipedOnFork& generation_word() {
  static WipedOnFork& word = make_wiped_on_fork();
  return word;
}
}  // namespace

OwnProcess::OwnProcess() noexcept : word_(generation_word()), generation_(process_generation()) {}

std::uint64_t process_generation() noexcept {
  WipedOnFork& generation = generation_word();
  std::uint64_t now = generation.load(std::memory_order_relaxed);
  if (now != 0) return now;
  const std::uint64_t fresh = fresh_random_128().low | 1U;
  return generation.compare_exchange_strong(now, fresh) ? fresh : now;
}

}  // namespace holdfast::base
