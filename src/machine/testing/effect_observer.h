// The state as one knows it who sees nothing but effects. Compared with the machine's own snapshot
// it shows that no change goes untold.
#pragma once

#include <map>
#include <string>

#include "src/machine/effect.h"
#include "src/machine/image.h"

namespace holdfast::machine::testing {

class EffectObserver {
 public:
  explicit EffectObserver(Token floor) { image_.floor = floor; }

  void pass(Instant now) { image_.now = now > image_.now ? now : image_.now; }
  // Holders let go by Keep: only then may the end of a lease move back.
  void expect_keeps() { expects_keeps_ = true; }
  // False: the effect makes no sense in the state so far.
  [[nodiscard]] bool see(const Effect& effect);

  MachineImage image() const;
  const LockImage* lock(const std::string& name) const;
  static const TicketImage* ticket(const LockImage* lock, AcquisitionId id);

 private:
  bool queued(const Effect& effect);
  bool granted(const Effect& effect);
  bool extended(const Effect& effect);
  bool ended(const Effect& effect);
  bool downgraded(const Effect& effect);
  bool resized(const Effect& effect);
  bool buried(const Effect& effect);
  bool unburied(const Effect& effect);
  bool forgotten(const Effect& effect);

  bool expects_keeps_ = false;
  MachineImage image_;  // Without locks.
  std::map<std::string, LockImage> locks_;
};

}  // namespace holdfast::machine::testing
