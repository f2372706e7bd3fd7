// The servers on one journal in etcd, each under a key with a lease of its own
// (docs/design/0072-server-members-and-drain.md).
//
//   <prefix>hf1/j/m/<address>     the format, whether it leads, since when (ms since 1970), its
//                                 version, the address of its HTTP port or -; "yields": it has
//                                 stepped down from several shards
//
// Guarantee: as port::Members. Whether a server leads is what it says itself and a leader key of
// the journal says, too. So a leader that stands still is not told beside its follower.
//
// Thread-safety, blocking and errors: as port::Members. Ownership: connections of its own.
// Time: kLease after its death a server is off the list.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/base/local_mutex.h"
#include "src/port/service/members.h"
#include "src/stores/etcd/journal/journal.h"
#include "src/stores/etcd/transport/rpc.h"
#include "src/stores/etcd/url.h"

namespace holdfast::stores::etcd {

class EtcdMembers final : public port::Members {
 public:
  static constexpr std::chrono::seconds kLease{6};

  // Asks no server. Errors: as Rpc::make().
  static Result<std::unique_ptr<port::Members>> make(const JournalSettings& settings,
                                                     std::uint32_t shards = 1);
  EtcdMembers(const JournalSettings& settings, std::uint32_t shards, std::unique_ptr<Rpc> rpc);
  ~EtcdMembers() override;

  void announce(ServerMember self, bool yields) override;
  void list(base::BootInstant deadline, Found found) override;
  void examine(base::BootInstant deadline, Examined told) override;

 private:
  // All on the thread of `rpc_`, as are the members without a guard.
  void look_after();
  void step();
  void grant();
  void write(const ServerMember& self, bool yields, std::uint64_t change);
  void wrote(std::uint64_t change, const Result<wire::PutResponse>& done);
  void keep();
  void revoke(Rpc::Then<wire::LeaseRevokeResponse> then);
  std::string key(const std::string& address) const { return folder_ + address; }

  std::vector<std::string> leader_keys_;  // By shard.
  const JournalSettings settings_;
  const std::string folder_;
  const std::unique_ptr<Rpc> rpc_;

  std::int64_t lease_ = 0;
  bool busy_ = false;     // One request at a time.
  bool leaving_ = false;  // Nothing begins any more.
  std::uint64_t written_ = 0;
  std::size_t keeper_ = 0;  // The etcd server that is asked for keepalives.

  base::LocalMutex mutex_;
  ServerMember self_ HOLDFAST_GUARDED_BY(mutex_);
  bool yields_ HOLDFAST_GUARDED_BY(mutex_) = false;
  std::uint64_t change_ HOLDFAST_GUARDED_BY(mutex_) = 0;  // Counts those of `self_`.
};

}  // namespace holdfast::stores::etcd
