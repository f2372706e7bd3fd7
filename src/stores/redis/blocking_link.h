// One connection to the primary, or to each node of a cluster, whose caller waits for each answer:
// for records and counters.
//
// Thread-safety, blocking: as port::Records. Ownership: the loop of the context that the opening
// was read with outlives it.
// Errors: those of DirectLink and NodeLinks. An error that the server answers is a reply of kind
// kError.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/stores/redis/cluster/node_links.h"
#include "src/stores/redis/opening.h"
#include "src/stores/redis/protocol/reply.h"
#include "src/stores/redis/transport/direct_link.h"

namespace holdfast::stores::redis {

class BlockingLink {
 public:
  explicit BlockingLink(Opening opening);
  ~BlockingLink();
  BlockingLink(const BlockingLink&) = delete;
  BlockingLink& operator=(const BlockingLink&) = delete;

  // Also learns what the server forgets.
  Result<void> open(base::BootInstant by);

  // `wire`: one request. `slot`: that of its keys, which a cluster needs.
  Result<Reply> ask(const std::string& wire, base::BootInstant by, bool reads_only,
                    std::uint16_t slot = 0);

  struct Changed {
    Reply reply;
    bool confirmed = true;  // By as many replicas as the URL wants.
  };
  Result<Changed> change(std::string wire, base::BootInstant by, std::uint16_t slot = 0);

  // For the message where a change is not confirmed.
  std::string unconfirmed() const;

  const std::string& where() const { return where_; }  // For messages.
  const std::string& forgets() const { return forgets_; }

 private:
  Result<std::vector<Reply>> call(std::string_view wire, std::size_t replies, base::BootInstant by,
                                  bool reads_only, std::uint16_t slot);

  const RemotePtr remote_;
  const std::shared_ptr<SentinelPrimary> sentinels_;  // Null without Sentinels.
  const std::string where_;
  std::optional<NodeLinks> nodes_;  // nullopt: a single server.
  DirectLink link_;                 // Unused with a cluster.
  std::string forgets_;
};

}  // namespace holdfast::stores::redis
