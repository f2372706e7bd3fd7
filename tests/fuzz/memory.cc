#include "tests/fuzz/memory.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace holdfast::fuzz {
namespace {

std::atomic<std::ptrdiff_t> in_use{0};
std::atomic<std::ptrdiff_t> most{0};
std::atomic<std::ptrdiff_t> at_first{0};

void* take_if(std::size_t size) noexcept {
  void* const memory = std::malloc(std::max<std::size_t>(size, 1));
  if (memory == nullptr) return nullptr;
  const std::ptrdiff_t now = in_use += static_cast<std::ptrdiff_t>(::malloc_usable_size(memory));
  if (now > most) most = now;
  return memory;
}

void* take(std::size_t size) {
  void* const memory = take_if(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void give_back(void* memory) noexcept {
  if (memory != nullptr) in_use -= static_cast<std::ptrdiff_t>(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

PeakMemory::PeakMemory() {
  at_first = in_use.load();
  most = in_use.load();
}

std::size_t PeakMemory::bytes() const { return static_cast<std::size_t>(most - at_first); }

}  // namespace holdfast::fuzz

void* operator new(std::size_t size) { return holdfast::fuzz::take(size); }
void* operator new[](std::size_t size) { return holdfast::fuzz::take(size); }
// std::stable_sort takes its buffer with this. The sanitizer's own is not memory for free().
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return holdfast::fuzz::take_if(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return holdfast::fuzz::take_if(size);
}
void operator delete(void* memory) noexcept { holdfast::fuzz::give_back(memory); }
void operator delete[](void* memory) noexcept { holdfast::fuzz::give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { holdfast::fuzz::give_back(memory); }
void operator delete[](void* memory, std::size_t) noexcept { holdfast::fuzz::give_back(memory); }
