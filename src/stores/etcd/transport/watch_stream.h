// All watches of a client, over one stream to the server in use.
//
// Guarantee: a sink gets `created` before any event, and again after each break of the stream.
// Between two of them no change is missed. Not guaranteed: that each change is reported alone, or
// only once.
//
// Thread-safety: add() and remove() from any thread; the rest on the loop, as the sinks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "src/stores/etcd/transport/rpc.h"
#include "src/stores/etcd/transport/rpc_impl.h"

namespace holdfast::stores::etcd {

class WatchStream {
 public:
  using Sink = std::function<void(const WatchNews&)>;

  explicit WatchStream(Rpc::Impl& home) : home_(home) {}

  std::uint64_t add(std::string key, std::string end, Sink sink);
  void remove(std::uint64_t watch);
  void restart();
  void close();

 private:
  struct Watch {
    std::string key;
    std::string end;
    std::shared_ptr<Sink> sink;
  };

  void ensure_stream();
  std::string create_request(std::uint64_t id, const Watch& watch) const;
  void on_message(std::string_view message);
  void on_answer(const wire::WatchResponse& answer);
  void on_end(const Refusal& refusal);
  void open_again_soon();

  Rpc::Impl& home_;
  std::atomic<std::uint64_t> last_id_ = 0;
  std::map<std::uint64_t, Watch> watches_;
  LinkPtr link_;  // Null: no stream.
  std::size_t server_ = 0;
  std::uint64_t call_ = 0;
  bool waiting_to_reopen_ = false;
};

}  // namespace holdfast::stores::etcd
