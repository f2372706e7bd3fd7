// The rules of the lock machine once more, as plainly as possible. Every lock is its image, and
// every question is answered by looking at all tickets. Slow on purpose; shares with the machine
// nothing but the vocabulary.
//
// It gives the reply and the state after each command. It knows nothing of effects, and counts
// Reply::position and Reply::next_expiry exactly however long the queue.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "src/machine/command.h"
#include "src/machine/image.h"
#include "src/machine/lock_machine.h"

namespace holdfast::machine::testing {

class ReferenceModel {
 public:
  explicit ReferenceModel(Token floor, Limits limits = {}) : limits_(limits), floor_(floor) {}

  Reply apply(const Command& command);
  MachineImage snapshot() const;
  void set_token_ceiling(std::uint64_t ceiling) { limits_.token_ceiling = ceiling; }

 private:
  Reply on(const Acquire& acquire);
  Reply join(const Acquire& acquire, LockImage* lock);
  Reply on(const Renew& renew);
  Reply on(const Release& release) { return leave(release.name, release.id, release.tombstone); }
  Reply on(const Cancel& cancel) { return leave(cancel.name, cancel.id, cancel.tombstone); }
  Reply on(const Downgrade& downgrade);
  Reply on(const Break& command);
  Reply on(const Resize& resize);
  Reply on(const SetValue& set);
  Reply on(const Keep& keep);
  Reply on(const Tick&) { return {.outcome = Outcome::kDone}; }

  void expire();
  Reply leave(std::string_view name, AcquisitionId id, Duration tombstone);
  void take_out(LockImage& lock, AcquisitionId id, Duration tombstone);
  void bury(LockImage& lock, AcquisitionId id, Duration tombstone);
  void admit(LockImage& lock);
  bool admit_one(LockImage& lock);
  void apply_shrink(LockImage& lock, AcquisitionId id);
  void grant(LockImage& lock, TicketImage& ticket);
  void cap_tombstones();
  void forget();
  LockImage* find(std::string_view name);
  Instant soonest(const LockImage& lock) const;  // First lease end among the holders.
  bool token_left(const LockImage* lock) const;
  Reply describe(const LockImage& lock, AcquisitionId id) const;

  Limits limits_;
  Token floor_;
  Instant now_{};
  std::uint32_t budget_ = 0;
  std::string own_;          // The lock that the command named.
  AcquisitionId subject_{};  // The ticket that the reply is about.
  std::map<std::string, LockImage, std::less<>> locks_;
};

}  // namespace holdfast::machine::testing
