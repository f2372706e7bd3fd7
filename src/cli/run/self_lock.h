// Finds a command under a lock that asks for the same lock again. This would be a deadlock with
// itself, unless it may go on under the lease of the outer run.
//
// The locks that the ancestors hold travel in HOLDFAST_HELD, as JSON [[name, owner, token], ...].
// The store is asked whether that very grant still holds, because the variable may outlive the
// lock: a service manager may have copied it. An owner is unique among all stores. So the spelling
// of the store's URL, or of the name under its namespace, does not matter.
#pragma once

#include <optional>
#include <string>

#include "holdfast/client.h"
#include "holdfast/token.h"

namespace holdfast::cli {

// The grant of a run around this one that holds a lock now.
struct HeldAround {
  std::string name;  // As that run was asked for it.
  HolderInfo holder;
};

// The one that holds `name` in this store. nullopt: none does, or the store does not tell.
// Errors: the store cannot be asked now. Nobody may wait for the lock without knowing.
Result<std::optional<HeldAround>> find_held_around(const Client& client, const std::string& name);

// kWouldDeadlock: to wait for the lock would be to wait for oneself.
Error self_deadlock(const HeldAround& around, const std::string& name);

// kWouldDeadlock: the outer lease does not cover the request, or this process does not descend from
// that run. In the second case nobody would end it at a loss.
std::optional<Error> cannot_reenter(const HeldAround& around, const std::string& name, Mode mode);

// HOLDFAST_HELD for the command: what was inherited, and this lock.
std::string held_variable(const std::string& name, const std::string& owner, Token token);

}  // namespace holdfast::cli
