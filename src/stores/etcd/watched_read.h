// One read, and a watch that misses no change after it.
//
// Both are requested at once. The read counts if it is not older than the watch; otherwise it is
// repeated. Guarantee: the first change after the reported state calls `wake` once, after the
// report. Thread-safety: start() from any thread; callbacks run on the thread of `Rpc`.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/stores/etcd/transport/rpc.h"

namespace holdfast::stores::etcd {

class WatchedRead : public std::enable_shared_from_this<WatchedRead> {
 public:
  using Told = std::function<void(Result<wire::RangeResponse>)>;

  // Without `wake` nothing is watched. `least`: the read must show at least this revision.
  WatchedRead(Rpc& rpc, wire::RangeRequest request, std::int64_t least, base::BootInstant deadline,
              Told told, std::function<void()> wake)
      : rpc_(rpc),
        request_(std::move(request)),
        least_(least),
        deadline_(deadline),
        told_(std::move(told)),
        wake_(std::move(wake)) {}

  // Returns the number of the watch, or 0. If the read is never woken, its caller ends the watch.
  std::uint64_t start(std::string key, std::string end);

 private:
  void on_news(const WatchNews& news);
  void on_read(Result<wire::RangeResponse> range);
  void send_read();
  void tell_when_whole();
  void tell(Result<wire::RangeResponse> range);
  void fire();
  void end_watch();

  Rpc& rpc_;
  wire::RangeRequest request_;
  const std::int64_t least_;
  const base::BootInstant deadline_;
  Told told_;
  std::function<void()> wake_;

  std::atomic<std::uint64_t> watch_ = 0;
  std::atomic<bool> over_ = false;
  // Used on the thread of Rpc only.
  std::optional<std::int64_t> watched_from_;
  std::optional<wire::RangeResponse> range_;
  bool was_told_ = false;
  bool changed_ = false;
};

}  // namespace holdfast::stores::etcd
