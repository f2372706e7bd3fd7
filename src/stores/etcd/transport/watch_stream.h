// All watches of a client, over one stream to the server in use.
//
// Guarantee: a sink gets `created` before any event, and again after each break of the stream.
// Between two of them no change is missed. Not guaranteed: that each change is reported alone, or
// only once.
//
// Thread-safety: add() and remove() from any thread; sinks run on the queue's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "src/base/local_mutex.h"
#include "src/stores/etcd/transport/rpc.h"
#include "src/stores/etcd/transport/rpc_impl.h"

namespace holdfast::stores::etcd {

class WatchStream {
 public:
  using Sink = std::function<void(const WatchNews&)>;

  explicit WatchStream(Rpc::Impl& home) : home_(home) {}

  std::uint64_t add(std::string key, std::string end, Sink sink) HOLDFAST_EXCLUDES(mutex_);
  void remove(std::uint64_t watch) HOLDFAST_EXCLUDES(mutex_);
  void restart() HOLDFAST_EXCLUDES(mutex_);

 private:
  class Stream;  // One connection; a new one follows when it breaks.
  struct Watch {
    std::string key;
    std::string end;
    std::shared_ptr<Sink> sink;
  };

  void ensure_stream() HOLDFAST_REQUIRES(mutex_);
  wire::WatchRequest create_request(std::uint64_t id, const Watch& watch) const;
  void on_answer(const wire::WatchResponse& answer) HOLDFAST_EXCLUDES(mutex_);
  void on_broken(Stream* stream) HOLDFAST_EXCLUDES(mutex_);
  void reopen() HOLDFAST_EXCLUDES(mutex_);

  Rpc::Impl& home_;
  base::LocalMutex mutex_;
  std::uint64_t last_id_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, Watch> watches_ HOLDFAST_GUARDED_BY(mutex_);
  Stream* stream_ HOLDFAST_GUARDED_BY(mutex_) = nullptr;  // Deletes itself.
  bool waiting_to_reopen_ HOLDFAST_GUARDED_BY(mutex_) = false;
};

}  // namespace holdfast::stores::etcd
