// Tells a process from its forked child, however the fork was made.
//
// The kernel wipes one page of ours in every child (MADV_WIPEONFORK), also after vfork-like clones
// that pthread_atfork does not see.
#pragma once

#include <cstdint>

namespace holdfast::base {

// A number for this process that none of its ancestors or children by fork has had; never zero.
std::uint64_t process_generation() noexcept;

}  // namespace holdfast::base
