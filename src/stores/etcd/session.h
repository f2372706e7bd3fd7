// The one lease of a client, kept alive.
//
// It is opened when it is first needed, renewed at a third of its time, and opened anew after it
// has ended, until close(). One keepalive is under way at a time; one that is not answered soon is
// asked of the next server.
//
// Guarantee: the deadline counts from the send of a keepalive that was confirmed; it never moves
// back in an epoch. After it the session has ended, whatever arrives later. The lease of a session
// that has ended is revoked as soon as a server answers, unless close() comes before.
//
// Generation: the session has a key of its own, and what this client creates or changes is
// conditional on the number of that key's last write. fence() writes it again: a request from
// before, whose outcome is not known, can do nothing from then on.
//
// Thread-safety: all functions from any thread. Callbacks run on the thread of `Rpc` or on the
// loop. Ownership: keeps a reference to `rpc`, `io` and `keys`, which outlive it.
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
#include "src/stores/etcd/transport/delays.h"
#include "src/stores/etcd/transport/rpc.h"

namespace holdfast::stores::etcd {

class Session {
 public:
  using View = contend::SessionView;
  struct Told {
    std::function<void(std::uint64_t epoch, const Error& why)> ended;
    std::function<void()> notified;
    std::function<void(const std::string& line)> alarm;
  };

  Session(Rpc& rpc, asio::io_context& io, const Keys& keys, std::chrono::seconds length,
          std::string owner);

  void start(Told told);
  View view() const HOLDFAST_EXCLUDES(mutex_);
  void ensure(base::BootInstant deadline, std::function<void(const Result<View>&)> then)
      HOLDFAST_EXCLUDES(mutex_);

  std::int64_t lease() const HOLDFAST_EXCLUDES(mutex_);
  std::string tag() const { return lease_text(lease()); }
  // The condition of a request of that session; nullopt: that session has ended.
  struct Guard {
    std::int64_t lease = 0;
    std::int64_t generation = 0;
  };
  std::optional<Guard> guard(std::uint64_t epoch) const HOLDFAST_EXCLUDES(mutex_);
  // That epoch's session key, as it was read.
  void set_generation(std::uint64_t epoch, std::int64_t generation) HOLDFAST_EXCLUDES(mutex_);
  void fence(base::BootInstant deadline, std::function<void(const Result<void>&)> then)
      HOLDFAST_EXCLUDES(mutex_);

  // The store says that it is over.
  void lost(std::uint64_t epoch, const std::string& why) HOLDFAST_EXCLUDES(mutex_);

  // Revokes the lease, within the time.
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
  View view_ HOLDFAST_GUARDED_BY(mutex_);  // Epoch 0: there is none now.
  std::uint64_t epochs_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  std::int64_t lease_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  std::int64_t generation_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  std::size_t keeper_ HOLDFAST_GUARDED_BY(mutex_) = 0;  // The server asked for keepalives.
  std::vector<std::uint64_t> watches_ HOLDFAST_GUARDED_BY(mutex_);
  bool opening_ HOLDFAST_GUARDED_BY(mutex_) = false;
  bool closing_ HOLDFAST_GUARDED_BY(mutex_) = false;
  bool refused_ HOLDFAST_GUARDED_BY(mutex_) = false;  // The renewal, and that was told.
  Waiting waiting_ HOLDFAST_GUARDED_BY(mutex_);

  Delays delays_;  // Its tasks use all of the above.
};

}  // namespace holdfast::stores::etcd
