// The inside of LockMachine: what each command does to the table, in steps of
//
//   1. drop everything whose lease or tombstone is over, of other locks up to the command's limit
//      (expire_due);
//   2. perform the command (on);
//   3. admit those whom the two let in, the command's own lock first, then the others by name,
//      up to the step's limit; then forget locks that nothing is left of (finish).
//
// commands.cc holds 2, lock_machine.cc 1 and 3, image.cc the way to and from plain data.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "src/machine/lock_machine.h"
#include "src/machine/require.h"
#include "src/machine/ticket_table.h"

namespace holdfast::machine {

// a + b, or the end of time.
constexpr Instant saturating_add(Instant a, Duration b) {
  if (a.time_since_epoch().count() > 0 && b > Instant::max() - a) return Instant::max();
  return a + b;
}

struct LockMachine::Impl {
  Impl(Token lowest, const Limits& bounds)
      : limits(bounds), floor(lowest), table(bounds.hash_seed, bounds.chunk) {}

  Reply apply(const Command& command, Effects& effects);

  // Step 1.
  void expire_due(const Command& command);
  bool expire_next();
  void expire_all_of(LockIndex index);
  std::optional<Instant> next_end() const;
  void drop_tombstone(TombstoneIndex index);

  // Step 2, one per command.
  Reply on(const Acquire& acquire);
  Reply on(const Renew& renew);
  Reply on(const Release& release);
  Reply on(const Cancel& cancel);
  Reply on(const Downgrade& downgrade);
  Reply on(const Break& command);
  Reply on(const Resize& resize);
  Reply on(const SetValue& set);
  Reply on(const Keep& keep);
  Reply on(const Tick& tick);

  Outcome foresee(const Acquire& acquire) const;
  Reply acquire_again(TicketIndex index);
  std::optional<Outcome> refusal(const Acquire& acquire, LockIndex index) const;
  bool admits_newcomer(const Acquire& acquire, LockIndex index) const;
  Reply enter(const Acquire& acquire, LockIndex index, bool granted);
  Reply queue_shrink(const Resize& resize, LockIndex index);
  Reply give_back(std::string_view name, AcquisitionId id, Duration tombstone);

  // Step 3.
  void finish();
  void settle(LockIndex index);
  TicketIndex next_admissible(const Lock& lock) const;
  bool upgrade_is_next(const Lock& lock) const;
  void grant(TicketIndex index);
  void shrink(TicketIndex index);
  void drop_larger_than(LockIndex index, std::uint32_t capacity);
  void note_leftover(LockIndex index);
  void forget_if_idle(LockIndex index);

  // Parts of all steps.
  LockIndex own(std::string_view name);  // Finds the command's lock and touches it; kNone: absent.
  LockIndex own_or_add(std::string_view name);
  void touch(LockIndex index);
  void end_ticket(TicketIndex index, EffectKind kind, Duration tombstone, const OwnerPtr& by = {});
  void end_one(TicketIndex index, EffectKind kind, Duration tombstone, const OwnerPtr& by);
  bool buries(Duration tombstone) const {
    return tombstone > Duration::zero() && limits.max_tombstones > 0;
  }
  void bury(LockIndex index, AcquisitionId id, Duration tombstone);
  void extend(TicketIndex index, Duration length, std::uint64_t seq);
  std::optional<Token> next_token(Token last) const;
  void take_token(TicketIndex index);
  Reply reply_for(TicketIndex index);  // Filled in by describe() once the step is over.
  void describe(Reply& reply) const;
  std::uint32_t position_of(TicketIndex index) const;
  Instant next_expiry(const Lock& lock) const;
  Instant opens_at(const Lock& lock) const;
  Effect& emit(EffectKind kind, LockIndex index);
  Effect& emit_ticket(EffectKind kind, TicketIndex index);

  LockImage image_of(LockIndex index) const;
  TicketImage image_of_ticket(TicketIndex index) const;
  bool can_load(const LockImage& image) const;
  // Takes owners and values out of an image that is not constant.
  template <class Image>
  void load(Image& image);
  TicketIndex load_ticket(LockIndex index, const TicketImage& image);

  void check_lock(LockIndex index) const;  // O(1)
  void check_everything_in(LockIndex index) const;
  void check_totals() const;
  void check_last_step() const;
  void check_all() const;

  Limits limits;
  Token floor;
  Instant now{};
  TicketTable table;

  // Belongs to the step that runs or ran last.
  Effects* effects = nullptr;
  std::uint32_t budget = 0;
  LockIndex own_lock = kNone;
  TicketIndex subject = kNone;  // The ticket that the reply is about.
  std::vector<LockIndex> touched;
};

}  // namespace holdfast::machine
