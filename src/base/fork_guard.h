// Tells a process from its forked child, however the fork was made.
//
// The kernel wipes one page of ours in every child (MADV_WIPEONFORK), also after vfork-like clones
// that pthread_atfork does not see.
#pragma once

#include <atomic>
#include <cstdint>

namespace holdfast::base {

// A number for this process that none of its ancestors or children by fork has had; never zero.
std::uint64_t process_generation() noexcept;

using WipedOnFork = std::atomic<std::uint64_t>;

// A word that is zero now and in every forked child; never freed. One page each.
WipedOnFork& make_wiped_on_fork();

// Remembers the process that made it. One load tells whether the caller is still in it.
class OwnProcess {
 public:
  OwnProcess() noexcept;

  bool forked() const noexcept { return word_.load(std::memory_order_relaxed) != generation_; }
  const WipedOnFork& word() const noexcept { return word_; }
  std::uint64_t generation() const noexcept { return generation_; }

 private:
  const WipedOnFork& word_;
  const std::uint64_t generation_;
};

}  // namespace holdfast::base
