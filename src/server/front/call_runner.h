// Runs Holdfast's own calls ("HF1 ...") on the service, and answers them.
//
// Thread-safety: the loop's thread. Ownership: the answers keep the connection alive.
#pragma once

#include <cstdint>

#include "src/server/front/commands.h"
#include "src/server/front/connection.h"
#include "src/server/service.h"

namespace holdfast::server {

// Answers "attach": the connection is of that shard from now on, which this server leads.
void attach(CommandContext& context, Connection& connection, std::uint32_t shard);

// On the service of the connection's shard.
void run_call(Service& service, CommandContext& context, Connection& connection,
              const Words& words);

}  // namespace holdfast::server
