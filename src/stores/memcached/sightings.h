// When this client first saw each lease: its own clock's place of a server's clock.
//
// A lease is known by the ticket's id and the number of the request that defined its end. It has
// ended for this client when that pair has been there for the length of the lease, counted from
// the arrival of the first reply that showed it. Its holder counts from before it sent that
// request, and stops earlier by the part for clocks of different rates.
//
// Guarantee: an end is never earlier than the request's arrival at the server plus the lease.
// Not guaranteed: memory of a lock that was not asked about for long; it is seen anew then.
//
// Thread-safety: safe: tests let several clients share one. Time: boot time, as the caller reads
// it.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/local_mutex.h"
#include "src/machine/image.h"

namespace holdfast::stores::memcached {

class Sightings {
 public:
  // Sets the end of each lease. `arrival`: of the reply that had the image.
  void add_ends(machine::LockImage& image, machine::Instant arrival);
  // The same for a document that this client wrote some time ago, which changes nothing here.
  // False: one end is not remembered.
  bool recall_ends(machine::LockImage& image) const;
  // The image was written by this client, with the ends that it gave.
  void note(const machine::LockImage& image);
  void forget(const std::string& name);

 private:
  struct Sight {
    machine::AcquisitionId id{};
    std::uint64_t seq = 0;
    machine::Instant end{};
  };
  using Sights = std::vector<Sight>;
  static constexpr std::size_t kMostRecent = 16'384;  // Locks.

  static Sights of(const machine::LockImage& image);
  const Sights* find(const std::string& name) const HOLDFAST_REQUIRES(mutex_);
  Sights& recent(const std::string& name) HOLDFAST_REQUIRES(mutex_);

  mutable base::LocalMutex mutex_;
  // Sightings that were not used since `recent_` was last full go with `older_`.
  std::unordered_map<std::string, Sights> recent_ HOLDFAST_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Sights> older_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::stores::memcached
