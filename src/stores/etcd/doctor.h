// Checks whether a running etcd is what the store needs, or a journal of the lock service.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "holdfast/guarantees.h"
#include "src/stores/etcd/keys.h"
#include "src/stores/etcd/transport/rpc.h"
#include "src/stores/etcd/url.h"

namespace holdfast::stores::etcd {

// `then` is called on the thread of `rpc`.
void examine(Rpc& rpc, const EtcdAddress& address, const Keys& keys, std::chrono::seconds session,
             base::BootInstant deadline, Rpc::Then<std::vector<Finding>> then);

// The journal's URL says this of its etcd.
struct JournalWishes {
  bool compacts = false;    // The service compacts the history itself.
  std::uint64_t quota = 0;  // Bytes, as the URL has it; zero: none.
};

// For the servers of a journal: without what only locks on etcd need. Changes nothing in etcd. The
// address and `rpc` outlive it.
void examine_journal(Rpc& rpc, const EtcdAddress& address, const std::string& key,
                     const JournalWishes& wishes, base::BootInstant deadline,
                     Rpc::Then<std::vector<Finding>> then);

// The judgement of the settings that matter for etcd's space, from what members have told.
struct SpaceSeen {
  std::int64_t size = 0;  // Bytes; zero: not told.
  std::int64_t in_use = 0;
  std::int64_t quota = 0;  // Zero: not told, as before etcd 3.6.
};
Finding judge_quota(const SpaceSeen& seen, std::uint64_t expected_quota);

struct HistorySeen {
  std::int64_t revision = 0;  // The newest.
  bool compacted = false;     // The first revision is not there any more.
  bool long_tail = false;     // kLongHistory revisions are there at least.
};
inline constexpr std::int64_t kLongHistory = 1'000'000;
Finding judge_history(const HistorySeen& seen, bool compacts);

}  // namespace holdfast::stores::etcd
