// The port's requests as commands of the engine: the machine's action, and the port's answer.
//
// Thread-safety: pure functions; `done` is called on the loop.
#pragma once

#include <cstdint>
#include <string>

#include "src/port/store.h"
#include "src/stores/memcached/protocol/command.h"

namespace holdfast::stores::memcached {

CommandPtr acquire_command(port::AcquireRequest request, port::Done<port::AcquisitionState> done);
CommandPtr end_command(port::AcquisitionRequest request, bool release,
                       port::Done<port::EndStatus> done);
CommandPtr renew_command(const port::RenewItem& item, base::BootInstant deadline,
                         port::Done<port::AcquisitionState> done);
CommandPtr downgrade_command(port::AcquisitionRequest request,
                             port::Done<port::AcquisitionState> done);
CommandPtr break_command(port::BreakRequest request, port::Done<bool> done);
CommandPtr set_value_command(port::AcquisitionRequest request, std::string value,
                             port::Done<bool> done);
CommandPtr keep_command(port::KeepRequest request, port::Done<bool> done);
CommandPtr resize_command(port::AcquisitionRequest request, std::uint32_t capacity,
                          port::Done<bool> done);

// For people. Expired tickets are left out: the next command on the lock will drop them.
LockInfo describe(Document document, machine::Instant now);

}  // namespace holdfast::stores::memcached
