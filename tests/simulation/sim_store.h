// The memory store behind a network: what the processes of a simulated world share.
//
// Requests of one process arrive in their order, late, or never; some replies and pushes are lost;
// a request may arrive a second time, long after. A client without an answer by the deadline is
// told kOutcomeUnknown.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "holdfast/lock_info.h"
#include "src/port/registry.h"
#include "src/stores/memory/in_process_hub.h"
#include "tests/simulation/world.h"

namespace holdfast::simulation {

struct Site {
  std::shared_ptr<stores::InProcessHub> hub;
  bool multi = true;
  // A lease was extended until then, by true time.
  std::function<void(const std::string& name, const machine::Token&, Nanos until)> on_extended;
};

std::shared_ptr<stores::InProcessHub> make_hub(World& world);

// The store of the process that runs.
std::unique_ptr<port::Store> make_sim_store(const Site& site, const port::StoreContext& context);

}  // namespace holdfast::simulation
