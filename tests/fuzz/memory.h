// How much memory operator new has given out and not got back: the most of it since then.
//
// Thread-safety: one meter at a time, on any thread.
#pragma once

#include <cstddef>

namespace holdfast::fuzz {

class PeakMemory {
 public:
  PeakMemory();
  std::size_t bytes() const;
};

}  // namespace holdfast::fuzz
