// One acquisition of this client, from its first request until it has left the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/contend/backend.h"
#include "src/contend/queue.h"
#include "src/port/store.h"

namespace holdfast::contend {

class Engine;
struct Ticket;
using TicketPtr = std::shared_ptr<Ticket>;

// What is to be done with a ticket, and when.
struct Due {
  std::weak_ptr<Ticket> ticket;
  void (Engine::*then)(const TicketPtr&);
};
using Dues = std::multimap<base::BootInstant, Due>;

struct Ticket {
  enum class Stage : std::uint8_t {
    kEntering,  // Its contender is asked for, or looked for after a lost reply.
    kWaiting,   // It stands in the queue.
    kHeld,
    kLeaving,  // Its contender is being removed, until the store has confirmed it.
    kEnded,
  };

  port::AcquireRequest request;
  Stage stage = Stage::kEntering;
  std::uint64_t epoch = 0;
  Place place;                     // `order` once it is `placed`.
  bool placed = false;             // Its contender was seen.
  bool sent = false;               // Its contender was asked for, and perhaps is there.
  std::optional<Error> unheard{};  // Why it surely was not, when it was tried last.
  Details details;                 // As they were written last.
  machine::Token token{};
  std::uint32_t ahead = 0;
  std::optional<base::BootInstant> opens_at;  // The gate, where that is known.

  // The newest request of its owner that has reached us, and when.
  std::uint64_t seq = 0;
  base::BootInstant seq_at{};
  base::BootInstant told_until{};   // The session's deadline that its owner was told of.
  base::BootInstant answer_from{};  // To a renewal that waits for a later one: as it is then,
  base::BootInstant answer_by{};    // and that the session is in doubt.

  std::optional<Dues::iterator> lease_due;

  std::vector<port::Done<port::AcquisitionState>> asks;  // To be told where it stands.
  std::size_t asks_seen = 0;  // So many of them came before the store was asked last.
  std::vector<port::Done<port::EndStatus>> ends;  // To be told that it has left.

  WakerPtr waker;
  std::optional<Place> blocker;  // kWaiting: nothing, if it watches the folder.
  bool told = false;             // That it waits.
  bool looking = false;          // Somebody decides about it right now...
  bool look_again = false;       // ...and has to do it once more.
  bool waited = false;
  bool marked_late = false;  // Others are to know before it holds.
  bool standing_by = false;  // kEntering: what blocks it, though it would not wait, is in doubt.
  bool rewriting = false;    // kHeld: its details are being written.
  bool perhaps_weakened = false;
  std::optional<Place> head;  // The head of the queue, read once.

  bool was_held = false;            // kLeaving.
  bool maybe_removed = false;       // The last removal failed: it is tried again.
  bool removal_unanswered = false;  // One of them perhaps was applied.
  std::optional<Result<port::AcquisitionState>> verdict{};  // What `asks` are told at its end.

  // The shrink of a permits lock: nobody's, and done with when it is admitted.
  bool system() const { return place.key.shape == Shape::kShrink; }

  // Of one that has held: with nobody beside it at any time.
  bool held_alone() const { return place.key.shape == Shape::kExclusive && !perhaps_weakened; }
};

}  // namespace holdfast::contend
