// How the lock machine's answers become the port's: one table for every store that runs the
// machine.
//
// Guarantee: each outcome maps to one status or one error code here and nowhere else; messages name
// the lock and say what to do.
// Thread-safety: pure functions. Time: `now` is the instant of the command that was answered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/lock_info.h"
#include "holdfast/mode.h"
#include "holdfast/result.h"
#include "holdfast/token.h"
#include "src/machine/command.h"
#include "src/machine/effect.h"
#include "src/machine/image.h"
#include "src/port/store.h"

namespace holdfast::port {

// --- Requests to commands. The command points into the request, which must outlive it.
machine::Acquire to_command(const AcquireRequest& request);
machine::Renew to_command(const RenewItem& item);

// A request that no store takes: without a name, an id or a time. kInvalidArgument; nullopt: it is
// well-formed.
std::optional<Error> refuse_malformed(const AcquireRequest& request);

// The error of a renewal whose ticket is gone, when the lock's last break named its token.
Error broken_error(const std::string& name, const BreakInfo& trace);

// --- Replies.

// For Acquire and Renew. Errors: kInvalidArgument, kQueueFull, kWouldDeadlock, kCorruptState.
Result<AcquisitionState> to_ticket_state(const machine::Reply& reply, std::string_view name,
                                         machine::Instant now);

// The same for an Acquire. A mismatch names the request beside the use at present. An upgrade of a
// lease that has ended is kLost. `current`: the lock after the command; nullptr: there is none, or
// it is not known.
Result<AcquisitionState> to_acquire_result(const machine::Reply& reply,
                                           const AcquireRequest& request,
                                           const machine::LockImage* current, machine::Instant now);

// For Release and Cancel.
Result<EndStatus> to_end_status(const machine::Reply& reply, std::string_view name);

// For Downgrade: the ticket's terms as `after` shows them (nullptr: it is gone). kGone: no holder
// has the id.
Result<AcquisitionState> to_downgrade_result(const machine::Reply& reply, std::string_view name,
                                             AcquisitionId id, const machine::LockImage* after);

// For Break, SetValue, Keep and Resize: true. false: the Resize stands in the queue. kLost: not the
// holder, or a lock that is not in use.
Result<bool> to_done(const machine::Reply& reply, std::string_view name);

// A grant (a ticket, an effect or a reply) as the client needs it to count its deadline.
template <typename Grant>
AcquisitionState held_state(const Grant& grant) {
  AcquisitionState state;
  state.status = AcquisitionStatus::kHeld;
  state.token = grant.token;
  state.seq = grant.seq;
  state.lease = grant.lease;
  return state;
}

// --- For people.
holdfast::Token to_public(Token token);
holdfast::Mode to_public(const Mode& mode);
holdfast::OwnerInfo to_public(const OwnerPtr& owner);

// HolderInfo::lock_delay.
std::chrono::milliseconds delay_of(const machine::TicketImage& ticket);

// A ticket that holds.
HolderInfo to_holder_info(const machine::TicketImage& ticket, machine::Instant now);

// Holders and waiters in queue order; system tickets are left out.
LockInfo to_lock_info(const machine::LockImage& image, machine::Instant now,
                      std::optional<BreakInfo> last_break);

// nullopt: an effect that people who watch are not told (heartbeats, tombstones, ...).
std::optional<LockEvent> to_event(const machine::Effect& effect, machine::Instant now);

// "exclusive", "shared", "2 of 5 permits".
std::string describe(const Mode& mode);

}  // namespace holdfast::port
