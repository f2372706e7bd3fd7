// The transitions of acquisition.h as data: which state may follow which, and by which event. Every
// step is checked against them wherever assert() is on, and acquisition_test.cc shows that each is
// used.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "src/contend/acquisition.h"

namespace holdfast::contend {

enum class EventKind : std::uint8_t {
  kBegin,
  kSessionOpened,
  kAsked,
  kEnd,
  kLeave,
  kWeaken,
  kLetGo,
  kWoken,
  kHandedOff,
  kNotified,
  kSessionEnded,
  kTimeIsUp,
  kAnswered,  // The request of the state was answered...
  kFailed,    // ...or was not.
  kBeside,    // An answer to one of the requests that a holder makes beside it.
  kRenewal,   // The last one.
};

inline EventKind kind_of(const Event& event) {
  const auto* replied = std::get_if<Replied>(&event);
  if (replied == nullptr) return static_cast<EventKind>(event.index());
  if (replied->slot != Slot::kMain) return EventKind::kBeside;
  const bool answered =
      std::visit([](const auto& reply) { return reply.has_value(); }, replied->reply);
  return answered ? EventKind::kAnswered : EventKind::kFailed;
}

template <typename E>
class EnumSet {
 public:
  constexpr EnumSet(std::initializer_list<E> values) {
    for (const E value : values) bits_ |= bit(value);
  }
  // All values from `first` to `last`, in the order of the enumeration.
  static constexpr EnumSet range(E first, E last) {
    EnumSet set{};
    for (auto i = static_cast<unsigned>(first); i <= static_cast<unsigned>(last); ++i) {
      set.bits_ |= 1U << i;
    }
    return set;
  }
  friend constexpr EnumSet operator|(EnumSet a, EnumSet b) {
    a.bits_ |= b.bits_;
    return a;
  }
  constexpr bool has(E value) const { return (bits_ & bit(value)) != 0; }

 private:
  static constexpr std::uint32_t bit(E value) { return 1U << static_cast<unsigned>(value); }
  std::uint32_t bits_ = 0;
};
using StateSet = EnumSet<State>;

struct Transition {
  StateSet from;
  EnumSet<EventKind> by;
  StateSet to;
};

namespace transitions {

using enum State;
using enum EventKind;

// Admitted: it holds, or must first find out its token.
inline constexpr StateSet kAdmitted = {kHeld, kPassingGate, kMarking, kListingShrink, kKeeping};
// Possible ends of the first decision, and of later ones.
inline constexpr StateSet kFirstDecided =
    kAdmitted | StateSet{kListing,     kListingInFull, kReadingRecord,
                         kReadingHead, kReadingFate,   kReadingBlocker,
                         kSettling,    kRemoving,      kEnded};
inline constexpr StateSet kDecided =
    kFirstDecided | StateSet{kLearningNumber, kListingOthers, kWaiting};
inline constexpr StateSet kLookFailed = {kLookPause, kSessionLost, kRemoving};
inline constexpr StateSet kDeciding = StateSet::range(kListing, kShrinking);
inline constexpr StateSet kParked = {kWaiting, kLookPause, kSessionLost};

inline constexpr Transition kAll[] = {
    // Entering.
    {{kAwaitingSession}, {kSessionOpened}, {kCreating, kFinding, kCreatePause, kEnded}},
    {{kAwaitingSession}, {kTimeIsUp}, {kEnded}},
    {{kCreating}, {kAnswered}, kFirstDecided},
    {{kCreating}, {kFailed}, {kSearching, kCreatePause, kEnded}},
    {{kSearching}, {kAnswered}, {kListing, kCreatePause, kRemoving, kEnded}},
    {{kSearching}, {kFailed}, {kSearchPause, kEnded}},
    {{kSearchPause}, {kTimeIsUp}, {kSearching}},
    {{kCreatePause}, {kTimeIsUp}, {kAwaitingSession, kEnded}},
    {{kFinding}, {kAnswered}, {kKeeping, kEnded}},
    {{kFinding}, {kFailed}, {kEnded}},
    // Deciding.
    {{kListing, kListingInFull, kReadingRecord, kReadingHead}, {kAnswered}, kDecided},
    {{kReadingFate}, {kAnswered}, {kListing, kListingInFull, kDropping, kStandingBy, kRemoving}},
    {{kReadingBlocker}, {kAnswered}, {kListing, kDropping, kWaiting, kPolling}},
    {{kDropping}, {kAnswered}, {kListing}},
    {{kSettling},
     {kAnswered},
     {kPassingGate, kLearningNumber, kMarking, kListingOthers, kListing}},
    {{kPassingGate}, {kAnswered}, {kHeld, kWaiting, kListing, kRemoving}},
    {{kLearningNumber}, {kAnswered}, {kHeld, kMarking, kKeeping, kListingOthers, kEnded}},
    {{kMarking}, {kAnswered}, {kHeld, kKeeping, kListingOthers, kEnded}},
    {{kListingOthers}, {kAnswered}, {kHeld, kKeeping, kOutdatingOthers}},
    {{kOutdatingOthers}, {kAnswered}, {kHeld, kKeeping, kListing}},
    {{kKeeping}, {kAnswered}, {kHeld, kLearningNumber, kLookPause, kRemoving, kEnded}},
    {{kKeeping, kLearningNumber}, {kFailed}, {kEnded}},  // An adoption.
    {{kListingShrink}, {kAnswered}, {kShrinking}},
    {{kShrinking}, {kAnswered}, {kListing, kEnded}},
    {kDeciding, {kFailed}, kLookFailed},
    // Waiting.
    {kParked | StateSet{kStandingBy}, {kWoken, kHandedOff}, {kListing}},
    {{kStandingBy, kLookPause, kWaiting}, {kTimeIsUp}, {kListing}},
    {kParked, {kNotified}, {kListing}},
    {kParked, {kRenewal}, {kPolling, kListing}},
    {{kWaiting}, {kHandedOff}, {kHeld, kPassingGate, kKeeping}},
    {{kPolling}, {kAnswered, kFailed}, {kWaiting, kListing}},
    // Holding: its contender was found gone.
    {{kHeld}, {kBeside}, {kEnded}},
    {{kHeld}, {kTimeIsUp}, {kEnded}},  // A kept lease was not renewed in time.
    // Leaving.
    // (When the session ends: if it is perhaps kept.)
    {StateSet::range(kListing, kHeld), {kEnd, kLeave, kTimeIsUp, kSessionEnded}, {kRemoving}},
    {{kRemoving}, {kAnswered}, {kEnded}},
    {{kRemoving}, {kFailed}, {kRemovePause, kEnded}},
    {{kRemovePause}, {kTimeIsUp, kEnd}, {kRemoving}},
    // Before kListing: if it is unwanted.
    {StateSet::range(kAwaitingSession, kRemovePause), {kSessionEnded}, {kEnded}},
};

}  // namespace transitions

// A step is allowed if the state stays the same, or if the table has it.
constexpr bool allowed(State from, EventKind by, State to) {
  if (from == to) return true;
  for (const Transition& row : transitions::kAll) {
    if (row.from.has(from) && row.by.has(by) && row.to.has(to)) return true;
  }
  return false;
}

}  // namespace holdfast::contend
