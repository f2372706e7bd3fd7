// etcd as the journal sees it: keys with revisions and their history, leases, transactions, and a
// network in between that loses, repeats and delays.
//
// Guarantee: requests take effect one after the other, each at one instant. A read at a revision is
// answered as of it; a read without one may be answered as of an older one (etcd #20418).
// Not guaranteed, as in etcd: that a lease lasts as long as it was granted for (#15247), and that a
// confirmed lease exists (#20590).
//
// Thread-safety: none (fiber.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/stores/etcd/wire.pb.h"
#include "tests/simulation/world.h"

namespace holdfast::testing::cluster {

namespace wire = stores::etcd::wire;
using simulation::Nanos;
using simulation::Process;

class SimEtcd {
 public:
  explicit SimEtcd(simulation::World& world);
  ~SimEtcd();
  SimEtcd(const SimEtcd&) = delete;
  SimEtcd& operator=(const SimEtcd&) = delete;

  static SimEtcd& get();

  // At once, as a member does it.
  Result<wire::TxnResponse> apply(const wire::TxnRequest& request);
  Result<wire::RangeResponse> apply(const wire::RangeRequest& request);
  Result<wire::CompactionResponse> apply(const wire::CompactionRequest& request);
  Result<wire::LeaseGrantResponse> apply(const wire::LeaseGrantRequest& request);
  Result<wire::LeaseRevokeResponse> apply(const wire::LeaseRevokeRequest& request);
  Result<wire::StatusResponse> apply(const wire::StatusRequest& request);
  // It answers the seconds that the lease has left; 0: the lease has ended.
  std::int64_t keep_alive(std::int64_t lease);

  // Takes a request to etcd, and its answer back to that server, or not. `arrives` makes it take
  // effect and returns what the answer does.
  using Arrives = std::function<simulation::Task()>;
  void carry(Process& from, const Arrives& arrives);

  // --- Faults.
  // `confirms`: by a member that is cut off with it, and confirms keepalives all the same.
  void cut_off(Process& server, Nanos time, bool confirms);
  bool confirms_alone(const Process& server) const;
  // The server's user may do nothing for a while.
  void deny(Process& server, Nanos time) { denied_[&server] = world_.now + time; }
  bool denies(const Process& server) const;
  // etcd changes its leader: nothing is answered, and then all leases begin anew.
  void fall_silent(Nanos time);
  void set_full(bool full) { full_ = full; }
  // The lease of the present leader of the servers ends.
  void end_leadership();
  void heal();

  // Everything that was ever written, when it is.
  std::function<void(const std::string& key, const std::string& value)> on_put;
  // Empty: it is not there.
  std::string value_of(const std::string& key) const;
  // The revision of the write that is taking place.
  std::int64_t next_revision() const { return revision_ + 1; }

  // It counts what has happened, so that a test can tell that it does.
  struct Tally {
    std::uint64_t repeated = 0;
    std::uint64_t late = 0;
    std::uint64_t refused = 0;  // Transactions whose comparison failed.
    std::uint64_t stale = 0;
  };
  Tally tally;

 private:
  struct Value {
    std::int64_t created = 0;
    std::int64_t modified = 0;
    std::int64_t lease = 0;
    std::string text;
    bool gone = false;
  };
  struct Lease {
    Nanos length{};
    Nanos ends{};
    std::uint64_t turn = 0;
  };
  struct Cut {
    Nanos until{};
    bool confirms = false;
  };

  const Value* find(const std::string& key, std::int64_t revision) const;
  wire::RangeResponse range(const wire::RangeRequest& request, std::int64_t revision) const;
  bool holds(const wire::Compare& compare) const;
  Result<wire::TxnResponse> read_only(const wire::TxnRequest& request);
  std::int64_t revision_to_read();
  void write(const std::string& key, Value value);
  void erase(const std::string& from, const std::string& end);
  void watch_over(std::int64_t lease);
  void end_lease(std::int64_t lease);
  bool is_cut(const Process& server) const;

  simulation::World& world_;
  std::map<std::string, std::vector<Value>> keys_;
  std::map<std::int64_t, Lease> leases_;
  std::map<const Process*, Cut> cut_;
  std::map<const Process*, Nanos> denied_;
  Nanos silent_until_{};
  std::int64_t revision_ = 1;
  std::int64_t compacted_ = 0;
  bool full_ = false;
  std::uint64_t turns_ = 0;
};

}  // namespace holdfast::testing::cluster
