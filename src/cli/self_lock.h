// Finding a deadlock with oneself: a command that runs under a lock asks for the same lock again.
//
// The locks that the ancestors hold travel in HOLDFAST_HELD, as JSON [[store, name, token], ...].
// The variable may outlive the lock (it was copied by a service manager, say), so the store is
// asked whether that very grant still holds.
#pragma once

#include <optional>
#include <string>

#include "holdfast/client.h"
#include "holdfast/token.h"

namespace holdfast::cli {

// Names the store the same however the URL was written: options that do not change which locks
// are meant are left out, a file's path is resolved. Holds no secret.
std::string store_key(const std::string& url);

// kWouldDeadlock when an ancestor holds `name` in this store now.
std::optional<Error> find_self_deadlock(const Client& client, const std::string& key,
                                        const std::string& name);

// HOLDFAST_HELD for the command: what was inherited, and this lock.
std::string held_variable(const std::string& key, const std::string& name, Token token);

}  // namespace holdfast::cli
