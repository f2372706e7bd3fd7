// The client's store session at etcd: its one lease, kept alive.
//
// The session is opened when first needed, renewed at a third of its time, and opened again after
// its end, until close(). One keepalive is under way at a time. If it is not answered soon, the
// next server is asked.
//
// Guarantee: the deadline counts from the send of a confirmed keepalive, and never moves back in an
// epoch. At the deadline the session has ended, whatever arrives later. The lease of an ended
// session is revoked as soon as a server answers, unless close() comes first.
//
// Generation: the session has a key of its own. Every creation and change of this client is
// conditional on the number of that key's last write. fence() writes the key again. From then on an
// earlier request with an unknown outcome can have no effect.
//
// Thread-safety: all functions from any thread. Callbacks run on the loops of `Rpc` and `io`,
// which are the same one in a store. Ownership: keeps a reference to `rpc`, `io` and `keys`, which
// outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/local_mutex.h"
#include "src/contend/backend.h"
#include "src/stores/etcd/keys.h"
#include "src/stores/etcd/transport/rpc.h"

namespace holdfast::stores::etcd {

std::int64_t fresh_lease();  // An id at random; never 0, which means none.

class StoreSession {
 public:
  using View = contend::SessionView;
  struct Told {
    std::function<void(std::uint64_t epoch, const Error& why)> ended;
    std::function<void()> notified;
    std::function<void(const std::string& line)> alarm;
  };

  StoreSession(Rpc& rpc, const Keys& keys, std::chrono::seconds length, std::string owner);

  void start(Told told);
  View view() const HOLDFAST_EXCLUDES(mutex_);
  void ensure(base::BootInstant deadline, std::function<void(const Result<View>&)> then)
      HOLDFAST_EXCLUDES(mutex_);

  std::int64_t lease() const HOLDFAST_EXCLUDES(mutex_);
  std::string tag() const { return lease_text(lease()); }
  // The condition for requests of that session; nullopt if the session has ended.
  struct Guard {
    std::int64_t lease = 0;
    std::int64_t generation = 0;
  };
  std::optional<Guard> guard(std::uint64_t epoch) const HOLDFAST_EXCLUDES(mutex_);
  // Notes the number of the last write to the session key, from a reading.
  void set_generation(std::uint64_t epoch, std::int64_t generation) HOLDFAST_EXCLUDES(mutex_);
  void fence(base::BootInstant deadline, std::function<void(const Result<void>&)> then)
      HOLDFAST_EXCLUDES(mutex_);

  // The store has reported the session's end.
  void lost(std::uint64_t epoch, const std::string& why) HOLDFAST_EXCLUDES(mutex_);

  // Revokes the lease, and waits for that until the deadline.
  void close(base::BootInstant deadline) HOLDFAST_EXCLUDES(mutex_);

 private:
  using Waiting = std::vector<std::function<void(const Result<View>&)>>;

  void open();
  void put_key(std::int64_t lease, base::BootInstant sent, std::chrono::seconds granted);
  void opened(std::int64_t lease, base::BootInstant sent, std::chrono::seconds granted,
              std::int64_t generation) HOLDFAST_EXCLUDES(mutex_);
  void open_failed(const Error& why) HOLDFAST_EXCLUDES(mutex_);
  void renew(std::uint64_t epoch) HOLDFAST_EXCLUDES(mutex_);
  void renewed(std::uint64_t epoch, base::BootInstant sent, std::size_t server,
               const Result<std::int64_t>& seconds_left) HOLDFAST_EXCLUDES(mutex_);
  void renewal_failed(std::uint64_t epoch, std::size_t server, const Error& why)
      HOLDFAST_EXCLUDES(mutex_);
  void confirmed(std::uint64_t epoch, base::BootInstant deadline) HOLDFAST_EXCLUDES(mutex_);
  void watch_deadline(std::uint64_t epoch) HOLDFAST_EXCLUDES(mutex_);
  void end(std::uint64_t epoch, const Error& why) HOLDFAST_EXCLUDES(mutex_);
  void watch_keys(std::uint64_t epoch) HOLDFAST_EXCLUDES(mutex_);
  void revoke(std::int64_t lease, base::BootInstant deadline,
              std::function<void(const Result<void>&)> then);
  void see_off(std::int64_t lease) HOLDFAST_EXCLUDES(mutex_);

  Rpc& rpc_;
  const Keys& keys_;
  const std::chrono::seconds length_;
  const std::string owner_;
  Told told_;

  mutable base::LocalMutex mutex_;
  View view_ HOLDFAST_GUARDED_BY(mutex_);  // Epoch 0: no session.
  std::uint64_t epochs_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  std::int64_t lease_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  std::int64_t generation_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  std::size_t keeper_ HOLDFAST_GUARDED_BY(mutex_) = 0;  // The server asked for keepalives.
  std::vector<std::uint64_t> watches_ HOLDFAST_GUARDED_BY(mutex_);
  bool opening_ HOLDFAST_GUARDED_BY(mutex_) = false;
  bool closing_ HOLDFAST_GUARDED_BY(mutex_) = false;
  bool refused_ HOLDFAST_GUARDED_BY(mutex_) = false;  // The renewal, as reported.
  Waiting waiting_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::stores::etcd
