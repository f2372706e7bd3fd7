#include "src/base/exit_gate.h"

#include <chrono>
#include <cstdint>
#include <thread>

#include "src/base/fork_guard.h"

namespace holdfast::base {
namespace {

// The lowest bit says that the gate is closed; the others count the passages under way.
constexpr std::uint64_t kClosed = 1;
constexpr std::uint64_t kPassage = 2;

WipedOnFork& gate() {
  static WipedOnFork& state = make_wiped_on_fork();
  return state;
}

struct Closer {
  // A passage is over in microseconds: polling costs less than telling the end of each.
  ~Closer() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    gate().fetch_or(kClosed);
    while (gate().load() >= kPassage && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
};

}  // namespace

void arm_exit_gate() { static const Closer closer; }

ExitPassage::ExitPassage() noexcept : open_((gate().fetch_add(kPassage) & kClosed) == 0) {
  if (!open_) gate().fetch_sub(kPassage);
}

ExitPassage::~ExitPassage() {
  if (open_) gate().fetch_sub(kPassage);
}

}  // namespace holdfast::base
