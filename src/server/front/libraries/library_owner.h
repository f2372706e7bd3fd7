// The owner of a lock that a lock library for Redis took. Its value is a secret of that library: a
// user who knows it can release the lock.
//
// Guarantee: `wake`, the user who took the lock, is never read from the wire.
// Not guaranteed: that each such owner is a library's, because a native client can name that
// program. It is then nobody's, and shown to admins only.
// Thread-safety: the loop's thread. Ownership: plain values.
#pragma once

#include <string>
#include <string_view>

#include "src/machine/types.h"
#include "src/server/access/account.h"

namespace holdfast::server {

// `user`: who has logged in; empty: the server has no users. `client`: the connection's label.
machine::OwnerPtr library_owner(std::string_view value, std::string_view user,
                                std::string_view client);

bool is_library_owner(const machine::OwnerPtr& owner);
std::string value_of(const machine::OwnerInfo& owner);

// The value is for the user who took the lock, and for admins. Without users it is for everybody.
bool may_see_owner(const AccountPtr& account, const machine::OwnerPtr& owner);

// The owner as that user may see it: the name of the user who took the lock in place of a value.
machine::OwnerPtr shown_owner(const AccountPtr& account, const machine::OwnerPtr& owner);

}  // namespace holdfast::server
