// Finding a deadlock with oneself: a command that runs under a lock asks for the same lock again.
//
// The locks that the ancestors hold travel in HOLDFAST_HELD, as JSON [[name, owner, token], ...].
// The store is asked whether that very grant still holds: the variable may outlive the lock (it was
// copied by a service manager, say), and an owner is unique among all stores, so it does not matter
// how the URL of the store, or the name under its namespace, is spelled.
#pragma once

#include <optional>
#include <string>

#include "holdfast/client.h"
#include "holdfast/token.h"

namespace holdfast::cli {

// kWouldDeadlock when an ancestor holds `name` in this store now.
std::optional<Error> find_self_deadlock(const Client& client, const std::string& name);

// HOLDFAST_HELD for the command: what was inherited, and this lock.
std::string held_variable(const std::string& name, const std::string& owner, Token token);

}  // namespace holdfast::cli
