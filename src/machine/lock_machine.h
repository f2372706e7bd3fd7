// Draft of the interface; its author completes the comments.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "src/machine/command.h"
#include "src/machine/effect.h"
#include "src/machine/image.h"
#include "src/machine/types.h"

namespace holdfast::machine {

struct Limits {
  std::uint32_t admissions_per_step = 128;
  std::uint32_t max_tombstones = 65'536;  // The oldest go first beyond it.
  std::size_t max_value = 4096;
  // No counter above this is ever issued (a store that reserves tokens in blocks sets it).
  std::uint64_t token_ceiling = UINT64_MAX;
};

class LockMachine {
 public:
  // `floor`: every token will be above it.
  explicit LockMachine(Token floor, Limits limits = {});
  ~LockMachine();
  LockMachine(LockMachine&&) noexcept;
  LockMachine& operator=(LockMachine&&) noexcept;

  // Expires what is due, performs the command, admits whom that lets in; appends to `effects`
  // (not cleared). `command.at` below now() is taken as now().
  Reply apply(const Command& command, Effects& effects);

  // The earliest instant at which a Tick would change something; nullopt if none ever would.
  std::optional<Instant> next_event() const;

  std::optional<LockImage> inspect(std::string_view name) const;
  std::vector<std::string> names(std::string_view prefix, std::size_t limit) const;  // Sorted.

  MachineImage snapshot() const;
  static std::optional<LockMachine> restore(const MachineImage& image, Limits limits = {});  // nullopt: inconsistent image.

  // Loads one lock (which must not exist yet): what a transactional store does before apply().
  bool restore_lock(const LockImage& image);

  Instant now() const;
  void set_token_ceiling(std::uint64_t ceiling);

  // Aborts unless every invariant holds. The per-step form looks at what the last command touched;
  // the full form at everything.
  void check_last_step() const;
  void check_invariants() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::machine
