// The port's requests as commands of the engine: the machine's action, the fast form where there is
// one, and the port's answer.
//
// Thread-safety: pure functions; `done` is called on the engine's thread, or on the caller's where
// the engine is closed. Whoever makes `done` posts to the loop.
#pragma once

#include <string>
#include <vector>

#include "src/port/store.h"
#include "src/sql/engine.h"

namespace holdfast::sql {

CommandPtr acquire_command(Engine& engine, port::AcquireRequest request,
                           port::Done<port::AcquisitionState> done);
CommandPtr acquire_all_command(Engine& engine, std::vector<port::AcquireRequest> requests,
                               port::Done<port::Store::Grants> done);
CommandPtr end_command(const port::AcquisitionRequest& request, bool release,
                       port::Done<port::EndStatus> done);
CommandPtr renew_command(Engine& engine, const port::RenewItem& item, base::BootInstant deadline,
                         port::Done<port::AcquisitionState> done);
CommandPtr downgrade_command(const port::AcquisitionRequest& request,
                             port::Done<port::AcquisitionState> done);
CommandPtr break_command(const port::BreakRequest& request, port::Done<bool> done);
CommandPtr set_value_command(const port::AcquisitionRequest& request, std::string value,
                             port::Done<bool> done);
CommandPtr keep_command(const port::KeepRequest& request, port::Done<bool> done);
CommandPtr resize_command(const port::AcquisitionRequest& request, std::uint32_t capacity,
                          port::Done<bool> done);

// For people. Expired tickets are left out: the next command on the lock will drop them.
LockInfo describe(const ReadLock& lock);

}  // namespace holdfast::sql
