// The ticket that an effect describes.
//
// Thread-safety: pure function.
#pragma once

#include "src/machine/effect.h"
#include "src/machine/image.h"

namespace holdfast::machine {

// As a grant, or an entry into the queue, makes it; `held` and `token` are left out.
inline TicketImage ticket_of(const Effect& effect) {
  return {.id = effect.id,
          .order = effect.order,
          .mode = effect.mode,
          .system = effect.system,
          .upgrade_of = effect.upgrade_of,
          .lease_end = effect.lease_end,
          .seq = effect.seq,
          .lease = effect.lease,
          .ttl = effect.ttl,
          .waiter_ttl = effect.waiter_ttl,
          .owner = effect.owner};
}

}  // namespace holdfast::machine
