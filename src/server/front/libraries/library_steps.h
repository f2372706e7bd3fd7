// Steps of the commands that lock libraries for Redis send, on locks of this service.
//
// A lock library knows its holder by a value. Here a grant has an acquisition of its own, which is
// looked up by that value first. The step that follows names the acquisition. So it does nothing to
// a later holder.
//
// Thread-safety: the loop's thread. Ownership: the service outlives what is under way. Texts are
// copied. Errors: a function answers `reply` in place of calling `then`, also for a name that no
// lock can have.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/server/front/pending_reply.h"
#include "src/server/service.h"

namespace holdfast::server {

struct LibraryHolder {
  machine::AcquisitionId id{};
  bool by_value = false;  // Not one of Holdfast's own clients.
  std::string value{};
  machine::Token token{};
  std::uint64_t seq = 0;
  machine::Duration left{};
  std::string lock_value{};   // The value beside the lock.
  machine::OwnerPtr owner{};  // If by_value.

  bool is(std::string_view one) const { return by_value && value == one; }
  std::int64_t left_ms() const;
};
// nullopt: the lock is free.
using MaybeHolder = std::optional<LibraryHolder>;

using LockNames = std::vector<std::string>;

// All locks, or one.
void look(Service& service, const PendingReply& reply, const LockNames& names,
          std::function<void(const std::vector<MaybeHolder>&)> then);
void look(Service& service, const PendingReply& reply, const std::string& name,
          const std::function<void(const MaybeHolder&)>& then);

// Whether all of these were taken; else none was. Whoever holds a lock or waits for it goes first.
void take(Service& service, const PendingReply& reply, const LockNames& names,
          const machine::OwnerPtr& owner, machine::Duration lease,
          const std::function<void(bool)>& then);

// Renews the leases of holders that were just seen, or just granted. These libraries count a lease
// from the answer. So it begins when `then` hears which of the locks are still held, and the answer
// must be given within that call (rule 59).
void extend(Service& service, const PendingReply& reply, const LockNames& names,
            const std::vector<LibraryHolder>& holders, machine::Duration lease,
            const std::function<void(const std::vector<bool>&)>& then);

// Requests hold views of the names.
Request extend_request(const std::string& name, const LibraryHolder& holder,
                       machine::Duration lease);
Request release_request(const std::string& name, const LibraryHolder& holder);
// Ends somebody else's hold. `command`: how, for those who look later.
Request break_request(const PendingReply& reply, const std::string& name,
                      const LibraryHolder& holder, std::string_view command);
// How many of these requests end with `wanted`.
void submit_each(Service& service, const PendingReply& reply, std::vector<Request> requests,
                 machine::Outcome wanted, const std::function<void(std::int64_t)>& then);
// Charges them to the user of the connection.
void charge_user(const PendingReply& reply, std::vector<Request>& requests);

machine::OwnerPtr owner_of_value(const Connection& connection, std::string_view value);

void give_integer(const PendingReply& reply, std::int64_t number);
void give_ok(const PendingReply& reply);
void give_nothing(const PendingReply& reply);

// kInvalidArgument, with the page to read.
Error refusal(const std::string& what);
Error held_by_own_client(const std::string& name);

Result<std::string> read_value(std::string_view value);
Result<machine::Duration> read_lease(std::string_view text,
                                     std::chrono::milliseconds unit = std::chrono::milliseconds(1));

}  // namespace holdfast::server
