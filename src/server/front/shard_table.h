// The shards of a service as its front has them: which this server leads, who leads the others, and
// for which one a request is.
//
// Guarantee: a connection that has attached to a shard reaches no other one. A connection of a lock
// library, which does not attach, reaches the shard of the locks that it names.
// Thread-safety: the loop's thread. Ownership: the services outlive their entries.
// Errors: kUnavailable: another server leads the shard, and the message says who.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/port/service/shards.h"
#include "src/server/front/connection.h"
#include "src/server/front/last_tokens.h"
#include "src/server/front/libraries/redisson_locks.h"
#include "src/server/service.h"

namespace holdfast::server {

class ShardTable {
 public:
  struct Part {
    Service* service = nullptr;  // Null: another server leads it.
    std::string leader{};        // Then: that one.
    LastTokens last_tokens{};
    UnlockAnswers unlock_answers{};
  };

  explicit ShardTable(std::uint32_t shards) : parts_(shards) {}

  std::uint32_t size() const { return static_cast<std::uint32_t>(parts_.size()); }
  Part& operator[](std::uint32_t shard) { return parts_[shard]; }
  const Part& operator[](std::uint32_t shard) const { return parts_[shard]; }
  const Part& of_lock(std::string_view name) const { return parts_[shard_of(name)]; }
  std::uint32_t shard_of(std::string_view lock) const { return port::shard_of(lock, size()); }

  // Null: this server does not lead the connection's shard, or the connection has none of several.
  Service* service_of(const Connection& connection) const;
  // While this server stands by: whether the journal answered when it was last asked.
  bool journal_answers = true;

  // The present of the connection's shard; without one, of all that this server leads together.
  Service::State state(const Connection& connection) const;
  std::vector<std::uint32_t> led() const;
  // The fewest copies of a commit that those have, beside the first.
  std::size_t copies() const;
  // The addresses of the leaders, if there are several, with commas between them. This server has
  // `own`.
  std::string leaders(const std::string& own) const;
  // nullopt: this server leads it.
  std::optional<Error> refuse(std::uint32_t shard) const;

  // Where there are several. nullopt: the request is about no lock. Errors: kVersionMismatch (the
  // client does not know shards), kUnsupported (locks of several shards).
  Result<std::optional<std::uint32_t>> shard_of_request(const Connection& connection,
                                                        const Words& words) const;
  // The shard that a connection may attach to, from the word on the wire. Errors: kInvalidArgument.
  Result<std::uint32_t> shard_to_attach(const Connection& connection, std::string_view word) const;

 private:
  const Part* part_of(const Connection& connection) const;

  std::vector<Part> parts_;
};

}  // namespace holdfast::server
