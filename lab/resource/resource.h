// The resource behind the locks of a run. For each lock it has a register, which accepts a write
// only if its token is not below the highest one seen. All processes of the run share it.
//
// Guarantee: writes of one lock take effect one after the other; the accepted ones are numbered 1,
// 2, ... in that order. A process that is killed or stopped inside a write hinders nobody.
// Not guaranteed: that a write without a token is ever refused.
//
// The rule: an exclusive token must not be below the highest exclusive one, nor equal it from
// another acquisition; a shared one must exceed it and does not raise it; permits claim nothing.
//
// Thread-safety: safe, also between processes. Errors: kUnavailable, kCorruptState (another kind of
// file); a write beyond the room throws std::runtime_error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "holdfast/result.h"
#include "holdfast/token.h"

#include "lab/history/event.h"

namespace holdfast::lab {

struct WriteAnswer {
  bool accepted = false;
  Token seen{};                // The highest exclusive token before this write.
  std::uint64_t sequence = 0;  // An accepted write's number.
};

class Resource {
 public:
  static constexpr std::uint64_t kRoom = 1U << 20U;  // Accepted writes of a run.

  // Creates the file for `locks` locks.
  static Result<Resource> create(const std::string& path, std::uint32_t locks);
  static Result<Resource> open(const std::string& path);

  Resource(Resource&& other) noexcept;
  Resource& operator=(Resource&&) = delete;
  ~Resource();

  WriteAnswer write(std::uint32_t lock, ModeKind mode, Token token, const Id& id);
  std::uint64_t refused() const;

 private:
  Resource(void* memory, std::size_t size) : memory_(memory), size_(size) {}
  static Result<Resource> map(const std::string& path, std::size_t size, bool fresh);

  void* memory_;
  std::size_t size_;
};

}  // namespace holdfast::lab
